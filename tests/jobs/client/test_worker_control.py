"""Workers are listed and asked to finish through an engine."""

import asyncio
import logging

import pytest
from tests.support.waiting import SOON, until

from holdfast import App, Engine, JobContext, UnknownWorker, WorkerOptions

app = App("shop")
RUNNING: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}


@app.job()
async def send(ctx: JobContext, name: str) -> str:
    started, end = RUNNING[name]
    started.set()
    await end.wait()
    return name


def test_a_worker_finishes_what_it_runs_and_claims_no_more(tmp_path, caplog):
    caplog.set_level(logging.INFO, "holdfast.worker")
    RUNNING.update({name: (asyncio.Event(), asyncio.Event()) for name in "ab"})

    async def scenario():
        url = f"sqlite:///{tmp_path}/work.db"
        async with Engine(url, apps=[app]) as engine, Engine(url) as other:
            # No time limit holds for the running attempt: stop() would release it at once.
            options = WorkerOptions(concurrency=1, shutdown_seconds=0)
            working = asyncio.create_task(engine.work(options=options))
            first, second = await engine.enqueue(send, "a"), await engine.enqueue(send, "b")
            await RUNNING["a"][0].wait()
            (worker,) = await other.workers.list()
            assert (worker.running, worker.finish_requested_at) == (1, None)

            asked = await other.workers.finish(worker.id)
            assert asked.finish_requested_at is not None
            await until(lambda: f"{worker.id} was asked to finish; 1 jobs run" in caplog.text)
            assert not working.done()
            RUNNING["a"][1].set()
            await asyncio.wait_for(working, SOON)
            assert await engine.result(first) == "a"
            waiting = await engine.get(second)
            assert (waiting.status, waiting.attempt_count) == ("queued", 0)
            assert await other.workers.list() == ()

    asyncio.run(scenario())


def test_an_idle_worker_ends_at_once(tmp_path):
    async def scenario():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            working = asyncio.create_task(engine.work())
            (worker,) = await until(engine.workers.list)
            await engine.workers.finish(worker.id)
            await asyncio.wait_for(working, SOON)

    asyncio.run(scenario())


def test_an_unknown_worker_is_refused(tmp_path):
    async def scenario():
        async with Engine(f"sqlite:///{tmp_path}/work.db") as engine:
            with pytest.raises(UnknownWorker, match="there is no worker 'w:1'"):
                await engine.workers.finish("w:1")
            with pytest.raises(TypeError, match="a worker is named by its id, got"):
                await engine.workers.finish(7)
            assert await engine.workers.list() == ()

    asyncio.run(scenario())
