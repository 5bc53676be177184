"""Stop a worker by SIGTERM and SIGINT, and recognise interrupts from outside a handler."""

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
    """Say whether the event loop is running `task`; if not, its coroutine is being closed."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


@contextmanager
def stop_on_signals(
    stop: Callable[[], None], on_signal: Callable[[], None] | None = None
) -> Iterator[None]:
    """Call `stop` on the event loop at each SIGTERM and SIGINT while the block runs.

    `Worker.stop` finishes or releases running jobs at the first signal, and releases them at once
    at the second. Needs a running event loop in the main thread; the previous signal handlers are
    restored afterwards. `on_signal` is called in the signal handler itself, even while a handler
    blocks the event loop; it must do next to nothing.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        loop.add_signal_handler(number, stop)
        if on_signal is not None:
            # In place of asyncio's own handler, which does nothing: `stop` is called all the same.
            signal.signal(number, lambda *_: on_signal())
    _blocks.append(stop)
    try:
        yield
    finally:
        _blocks.remove(stop)
        for number in STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
