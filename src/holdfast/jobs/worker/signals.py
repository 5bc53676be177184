"""Stop a worker by the signals that ask a process to end, and tell what comes from outside."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGTERM, signal.SIGINT)

_blocks: list[Callable[[], None]] = []


def interrupts_here() -> bool:
    """Say whether a Ctrl-C may raise `KeyboardInterrupt` in this thread."""
    return not _blocks and threading.current_thread() is threading.main_thread()


def runs_now(task: asyncio.Task[None] | None) -> bool:
    """Say whether the event loop runs `task` just now; if not, its coroutine is being closed."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


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
    _blocks.append(stop)
    try:
        yield
    finally:
        _blocks.remove(stop)
        for number in STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
