"""SIGTERM and SIGINT call stop, and what handled them before does so again."""

import asyncio
import os
import signal

import pytest

from holdfast.jobs.signals import stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_calls_stop_and_the_old_handler_is_put_back(number):
    async def go():
        before = signal.getsignal(number)
        heard = asyncio.Event()
        with stop_on_signals(heard.set):
            os.kill(os.getpid(), number)
            async with asyncio.timeout(10):
                await heard.wait()
        assert signal.getsignal(number) is before

    asyncio.run(go())
