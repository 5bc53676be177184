"""Stop a worker by SIGTERM and SIGINT, and recognise interrupts from outside a handler."""

import asyncio
import functools
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

STOPPING = (signal.SIGTERM, signal.SIGINT)

_blocks: list[Callable[[], None]] = []
_at_fork = threading.local()


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
    restored afterwards. `on_signal` is called in a thread, at once even while a handler blocks the
    event loop or the main thread is inside a C call; once or more often for each signal.
    """
    _prepare_forks()
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        loop.add_signal_handler(number, stop)
        if on_signal is not None:
            # In place of asyncio's own handler, which does nothing: `stop` is called all the same.
            # Needed where code of a handler took the wakeup descriptor from our thread.
            signal.signal(number, lambda *_: on_signal())
    _blocks.append(stop)
    try:
        with nullcontext() if on_signal is None else _in_thread(on_signal):
            yield
    finally:
        _blocks.remove(stop)
        for number in STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


@contextmanager
def _in_thread(on_signal: Callable[[], None]) -> Iterator[None]:
    """Call `on_signal` in a thread of its own at each SIGTERM and SIGINT while the block runs.

    Python calls a signal handler in the main thread, and only when a C call there has returned.
    The signal's number is written to the wakeup descriptor at once. asyncio wakes its event loop
    by that descriptor, so the thread passes everything on to it.
    """
    arriving, wakeup = socket.socketpair()
    with arriving, wakeup:
        wakeup.setblocking(False)
        to_loop = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(
            target=_pass_on, args=(arriving, to_loop, on_signal), name="holdfast-signals",
            daemon=True,
        )  # fmt: skip
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(to_loop)
            # To close it is not enough: a forked process may hold it too.
            wakeup.shutdown(socket.SHUT_WR)
            thread.join()


def _pass_on(arriving: socket.socket, to_loop: int, on_signal: Callable[[], None]) -> None:
    while numbers := arriving.recv(64):
        if any(number in STOPPING for number in numbers):
            on_signal()
        with suppress(OSError):  # full: the loop is about to wake up anyway
            os.write(to_loop, numbers)


# A forked process inherits the handlers and the wakeup descriptor: a signal sent to it would not
# end it, and would stop the worker. Signals wait until the new process has Python's own handlers.


@functools.cache
def _prepare_forks() -> None:
    os.register_at_fork(
        before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_reset_signals
    )


def _block_signals() -> None:
    _at_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _at_fork.mask)


def _reset_signals() -> None:
    if _blocks:
        _blocks.clear()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _unblock_signals()
