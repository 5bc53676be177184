"""Stop a worker by the signals that ask a process to end."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at each SIGTERM and SIGINT while the block runs.

    `Worker.stop` finishes or hands back at the first signal and hands back at once at the second.
    Needs a running event loop in the main thread; what handled the signals before does so again
    afterwards.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
