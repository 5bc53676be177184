"""SIGTERM and SIGINT call stop, and the previous handlers are restored."""

import asyncio
import os
import signal
import threading

import pytest
from tests.support.waiting import until

from holdfast.bootstrap import Engine
from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import JobClaimed
from holdfast.jobs.worker.signals import interrupts_here, runs_now, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_calls_stop_and_the_old_handler_is_restored(number):
    async def go():
        before = signal.getsignal(number)
        stopped = asyncio.Event()
        with stop_on_signals(stopped.set):
            os.kill(os.getpid(), number)
            async with asyncio.timeout(10):
                await stopped.wait()
        assert signal.getsignal(number) is before

    asyncio.run(go())


@pytest.mark.parametrize("when", ["before", "inside"])
def test_each_signal_reaches_the_event_loop_once_beside_other_handlers(when):
    async def go():
        loop = asyncio.get_running_loop()
        stops, others, noticed = [], [], []
        if when == "before":
            loop.add_signal_handler(signal.SIGUSR1, others.append, 1)
        with stop_on_signals(lambda: stops.append(1), lambda: noticed.append(1)):
            if when == "inside":  # it takes the wakeup descriptor
                loop.add_signal_handler(signal.SIGUSR1, others.append, 1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                os.kill(os.getpid(), number)
            await until(lambda: len(stops) >= 2 and others and noticed)
        loop.remove_signal_handler(signal.SIGUSR1)
        assert (len(stops), len(others)) == (2, 1)

    asyncio.run(go())


def test_a_thread_learns_of_a_signal_and_ends_with_the_block():
    async def go():
        before, noticed = signal.getsignal(signal.SIGTERM), set()
        with stop_on_signals(lambda: None, lambda: noticed.add(threading.current_thread().name)):
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: "holdfast-signals" in noticed)
        assert "holdfast-signals" not in {each.name for each in threading.enumerate()}
        assert signal.set_wakeup_fd(-1) == -1
        assert signal.getsignal(signal.SIGTERM) is before

    asyncio.run(go())


def test_an_interrupt_may_reach_the_main_thread_unless_signals_are_handled():
    async def go():
        assert interrupts_here()
        with stop_on_signals(lambda: None):
            assert not interrupts_here()
        assert interrupts_here()
        assert not await asyncio.to_thread(interrupts_here)

    asyncio.run(go())


def test_a_task_runs_now_only_inside_itself():
    async def go():
        assert runs_now(asyncio.current_task())
        assert not runs_now(None)

    asyncio.run(go())
    assert not runs_now(None)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_listener_that_exits_ends_the_worker_and_its_jobs_are_released(kind, tmp_path):
    app, url = App("own"), f"sqlite:///{tmp_path}/work.db"

    @app.job()
    async def work(ctx): ...

    def leave(event):
        if isinstance(event, JobClaimed):
            raise kind

    async def run():
        async with Engine(url, apps=[app], listeners=[leave]) as engine:
            await engine.enqueue(work, id="one")
            await engine.work()

    async def outcomes():
        async with Engine(url, apps=[app]) as engine:
            job = await engine.get("one")
            return job.status, [each.outcome for each in await engine.attempts(job)]

    with pytest.raises(kind):
        asyncio.run(run())
    assert asyncio.run(outcomes()) == ("queued", ["released"])
