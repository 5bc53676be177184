"""Results are limited as arguments are, and a tick carries only so many bytes of them."""

import asyncio

import pytest
from tests.support import isolated
from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.slots import TICK_CHARACTERS
from holdfast.store.sqlite.store import SQLiteStore

app = App("results")


@app.job()
def threaded(ctx, size: int) -> str:
    return "x" * size


@app.job()
async def in_loop(ctx, size: int) -> str:
    return "x" * size


@pytest.mark.parametrize(
    "of, kind", [(app, in_loop), (app, threaded), (isolated.values_app, isolated.filled)]
)
def test_a_result_over_the_limit_fails_its_attempt_for_good(tmp_path, of, kind):
    async def go():
        async with rig(tmp_path, of) as it:
            it.worker = it.another(it.options, payload_limit=1000)
            await it.enqueue(kind, "fits", arguments="998")
            await it.enqueue(kind, "too-large", arguments="999")
            await it.run()
            assert await it.status("fits") == "complete"
            job = await it.store.get("too-large")
            assert (job.status, job.error.code) == ("failed", "TOO_LARGE")
            assert job.attempt_count == 1
            assert "1001 bytes of JSON exceed the limit of 1000" in job.error.message
            assert "result" in job.error.message

    asyncio.run(go())


def test_large_results_are_spread_over_ticks(tmp_path, monkeypatch):
    sizes, tick = [], SQLiteStore.tick

    async def note(self, worker_id, finished=(), claim=None, **rest):
        sizes.append(sum(len(item.outcome.result or "") for item in finished))
        return await tick(self, worker_id, finished, claim, **rest)

    monkeypatch.setattr(SQLiteStore, "tick", note)
    size, number = TICK_CHARACTERS // 4, 20

    async def go():
        async with rig(tmp_path, app, concurrency=number) as it:
            it.worker = it.another(it.options, payload_limit=size + 2)
            names = [f"job-{n}" for n in range(number)]
            await it.enqueue(in_loop, *names, arguments=str(size))
            await it.run()
            assert {await it.status(name) for name in names} == {"complete"}

    asyncio.run(go())
    assert sum(sizes) == number * (size + 2)
    assert max(sizes) <= TICK_CHARACTERS
