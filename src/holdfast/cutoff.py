"""Give a blocking call a time limit.

Python cannot stop a thread from outside. So the call runs on a daemon thread while its caller
waits. A caller whose time is up goes on and abandons the call: the thread runs on until the call
returns, and the late result is dropped. Nothing is thrown into the thread. The number of abandoned
threads is bounded by `holdfast.resilience.limits.AbandonedThreads` and by a worker's slots.
"""

import contextvars
import math
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

__all__ = ["CallCutOff", "DaemonThreads", "ThreadTask", "call_within"]

T = TypeVar("T")


class CallCutOff(TimeoutError):
    """A call was cut off by `call_within`; its own `TimeoutError` would be a plain one."""


class ThreadTask(Protocol):
    """Work for one of the `DaemonThreads`. Neither method may raise."""

    def run(self) -> None:
        """Do the work and keep its outcome."""
        ...

    def announce(self) -> None:
        """Wake the caller; the thread can be used for another task by now."""
        ...


class DaemonThreads:
    """Start tasks on daemon threads, each on an idle one where there is one.

    Daemons, because a thread that is blocked for ever must not keep the process from ending; those
    of `concurrent.futures` do. There are as many threads as tasks at a time; the caller bounds
    their number.

    List operations are atomic and take the place of a lock, so that a signal handler which runs in
    the middle of `start` can call `start` as well.

    Args:
        name: the name of each thread.
        max_idle: how many idle threads are kept.
    """

    def __init__(self, name: str, max_idle: int = 32) -> None:
        self._name = name
        self._max_idle = max_idle
        self._closed = False
        self._idle: list[tuple[threading.Thread, SimpleQueue[ThreadTask | None]]] = []

    def start(self, task: ThreadTask) -> None:
        """Run `task` on a thread.

        Raises:
            RuntimeError: no thread can be started.
        """
        while (idle := self._take_idle()) is not None:
            thread, inbox = idle
            # In a forked child the threads of its parent do not exist.
            if thread.is_alive():
                inbox.put(task)
                return
        inbox = SimpleQueue()
        thread = threading.Thread(target=self._serve, args=(inbox,), name=self._name, daemon=True)
        thread.start()
        inbox.put(task)

    def close(self) -> None:
        """End idle threads now, and busy ones after their task."""
        self._closed = True
        while (idle := self._take_idle()) is not None:
            idle[1].put(None)

    def _take_idle(self) -> "tuple[threading.Thread, SimpleQueue[ThreadTask | None]] | None":
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _serve(self, inbox: "SimpleQueue[ThreadTask | None]") -> None:
        idle = (threading.current_thread(), inbox)
        while (task := inbox.get()) is not None:
            task.run()
            keep = len(self._idle) < self._max_idle
            # Idle before the caller knows: its next call then uses this thread, not a new one.
            if keep:
                self._idle.append(idle)
            task.announce()
            del task
            if not keep:
                return
            if self._closed:
                self.close()


class _TimedCall:
    """One operation on its way through a thread, and its outcome."""

    __slots__ = ("_context", "_operation", "done", "error", "value")

    def __init__(self, operation: Callable[[], Any]) -> None:
        self._operation = operation
        self._context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._context.run(self._operation)
        except BaseException as error:
            self.error = error
            # The traceback holds this frame, which must not hold the error: a reference cycle.
            del self

    def announce(self) -> None:
        self.done.release()


_THREADS = DaemonThreads("holdfast-call")


def call_within(seconds: float, operation: Callable[[], T]) -> T:
    """Return `operation()`, or raise `CallCutOff` once it has run for `seconds`.

    The operation runs on another thread with a copy of the caller's context variables. Whatever it
    raises, `SystemExit` and `KeyboardInterrupt` included, is raised here with its traceback.

    On expiry, and when the waiting caller is itself interrupted, the call is abandoned: its thread
    goes on until the operation returns. Long operations can ask `holdfast.cancelled()`.

    With `seconds` of zero or less the operation is not started.
    """
    if math.isnan(seconds):
        raise ValueError(f"seconds must be a number, got {seconds!r}")
    if seconds <= 0:
        raise CallCutOff("cut off before it began: no time was left")
    call = _TimedCall(operation)
    try:
        _THREADS.start(call)
        if not call.done.acquire(True, min(seconds, threading.TIMEOUT_MAX)):
            raise CallCutOff(f"cut off after {seconds:g} s")
        if call.error is not None:
            raise call.error
        return cast(T, call.value)
    finally:
        # A traceback holds this frame; the frame must not hold the traceback's exception.
        del call
