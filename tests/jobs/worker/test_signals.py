"""SIGTERM and SIGINT call stop, and the previous handlers are restored."""

import asyncio
import os
import signal

import pytest

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
