"""Cut a blocking call short: the thread machinery behind `SystemClock.call_within`.

Python cannot stop a thread from outside, so the operation runs on a pooled thread and the caller
waits for it there. A call ends in exactly one way, decided under the call's own lock: it
**finished**, and its thread goes back to the pool, or it was **abandoned**, and its thread is
thrown an exception that ends it and is never used again. Because an exception is thrown only at a
call that has not finished, it cannot strike a later call on the same thread.

There is no lock around the pool: handing over relies on `list.pop`, `list.append` and `list.remove`
being atomic, so a signal handler or a finaliser that makes such a call itself cannot deadlock.
"""

from __future__ import annotations

import _weakrefset
import contextlib
import contextvars
import enum
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar, cast

__all__ = ["CallCutOff", "abandoned_count", "call_within"]

T = TypeVar("T")

IDLE_SECONDS = 10.0
MAX_IDLE_THREADS = 32
STRIKE_SECONDS = 0.05
LOOK_AGAIN_SECONDS = 0.001
LOOK_AGAIN_AT_MOST_SECONDS = 0.1

# Functions that take a lock or give it back, of `threading`, `logging`, `importlib` and `coverage`
# by name. A thread struck in one of them would keep the lock, and with it perhaps all of logging.
_HANDLES_A_LOCK = frozenset(
    {
        "__enter__",
        "__exit__",
        "_acquireLock",
        "_get_module_lock",
        "_releaseLock",
        "acquire",
        "lock_data",
        "release",
        "unlock_data",
    }
)
_WEAKREF_FILES = frozenset({weakref.__file__, _weakrefset.__file__})


class CallCutOff(TimeoutError):
    """A call was cut off by `call_within`; its own `TimeoutError` would be a plain one."""


class _Abandoned(SystemExit):
    """Thrown into the thread of an abandoned call.

    A `SystemExit`, because that is what ends a thread quietly: `asyncio` and `threading` let it
    through where they would log or swallow any other exception.
    """


class _State(enum.Enum):
    PENDING = enum.auto()
    FINISHED = enum.auto()
    ABANDONED = enum.auto()


def call_within(seconds: float, operation: Callable[[], T]) -> T:
    """Return `operation()`, or raise `CallCutOff` once it has run for `seconds`.

    The operation runs on another thread with a copy of the caller's context variables. A result
    that is there in time always wins; whatever the operation raises, `SystemExit` and
    `KeyboardInterrupt` included, is raised here with its traceback.

    On expiry, and when the waiting caller is itself interrupted, the thread is abandoned: it is
    thrown a private `BaseException` the next time it runs Python code, and its result is dropped.
    It goes on, counted by `abandoned_count`, as long as it

    - is blocked in C (a socket read, `time.sleep`), until that call returns;
    - is in a function called `acquire`, `release`, `__enter__` or `__exit__`, or in a finaliser,
      until it leaves it, since a thread struck there might keep a lock for ever;
    - swallows the exception, until it returns.

    A `call_within` inside an abandoned operation is abandoned with it. An operation that runs an
    event loop should cut itself off in there: a loop struck between two steps can lose one and
    wait for it for ever as it closes.

    With `seconds` of zero or less the operation is not started.
    """
    if math.isnan(seconds):
        raise ValueError(f"seconds must be a number, got {seconds!r}")
    if seconds <= 0:
        raise CallCutOff("cut off before it began: no time was left")
    call = _Call(operation)
    waiter: _Worker | None = getattr(_current, "worker", None)
    try:
        try:
            if waiter is not None:
                waiter.waiting_for = call
            _hand_over(call)
            call.done.acquire(True, min(seconds, threading.TIMEOUT_MAX))
        except BaseException:
            call.abandon()
            raise
        finally:
            if waiter is not None:
                waiter.waiting_for = None
        if call.abandon():
            raise CallCutOff(f"cut off after {seconds:g} s")
        if call.error is not None:
            raise call.error
        return cast(T, call.value)
    finally:
        # A traceback holds this frame; the frame must not hold the traceback's exception.
        del call


def abandoned_count() -> int:
    """Return how many abandoned calls are still running."""
    return len(_abandoned)


class _Call:
    """One operation on its way through a thread, and how it ended."""

    __slots__ = (
        "_lock",
        "_over",
        "_state",
        "_worker",
        "context",
        "done",
        "error",
        "operation",
        "value",
    )

    def __init__(self, operation: Callable[[], Any]) -> None:
        self.operation = operation
        self.context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.value: Any = None
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._state = _State.PENDING
        self._over = False
        self._worker: _Worker | None = None

    def begin(self, worker: _Worker) -> bool:
        """Note who runs it; False where nobody waits for it any more."""
        with self._lock:
            self._worker = worker
            return self._state is _State.PENDING

    def finish(self, value: Any, error: BaseException | None) -> bool:
        """Keep the outcome; False where the call was abandoned first."""
        with self._lock:
            self._over = True
            if self._state is not _State.PENDING:
                return False
            self.value, self.error = value, error
            self._state = _State.FINISHED
            return True

    def abandon(self) -> bool:
        """Give the call up unless it has finished; return whether it is given up."""
        with self._lock:
            if self._state is not _State.PENDING:
                return self._state is _State.ABANDONED
            self._state = _State.ABANDONED
            worker = self._worker
            if worker is not None:
                _abandoned.add(worker)
            self.done.release()
        if worker is not None:
            self._have_it_struck(worker)
        return True

    def _have_it_struck(self, worker: _Worker) -> None:
        strike = _Call(lambda: self._strike(worker))
        # A program that can start no thread, or is ending, leaves the operation to itself.
        with contextlib.suppress(RuntimeError):
            _hand_over(strike)
            strike.done.acquire(True, STRIKE_SECONDS)

    def _strike(self, worker: _Worker) -> None:
        look_again = LOOK_AGAIN_SECONDS
        while True:
            with self._lock:
                if self._over:
                    return
                if _throw_into(worker.thread):
                    break
            threading.Event().wait(look_again)
            look_again = min(2 * look_again, LOOK_AGAIN_AT_MOST_SECONDS)
        # The thread may sit in an inner call's wait, where no exception reaches it.
        inner = worker.waiting_for
        if inner is not None:
            inner.abandon()


class _Worker:
    """A daemon thread that runs one call after another until it is idle for too long."""

    __slots__ = ("_call", "_lock", "_retired", "_wake", "thread", "waiting_for")

    def __init__(self) -> None:
        self.thread = threading.Thread(target=self._main, name="holdfast-call", daemon=True)
        self.waiting_for: _Call | None = None
        self._call: _Call | None = None
        self._lock = threading.Lock()
        self._retired = False
        self._wake = threading.Lock()
        self._wake.acquire()

    def offer(self, call: _Call) -> bool:
        """Hand over a call; False where the thread has just retired."""
        with self._lock:
            if self._retired:
                return False
            self._call = call
            self._wake.release()
            return True

    def _main(self) -> None:
        _current.worker = self
        try:
            while self._serve():
                pass
        except _Abandoned:
            pass
        _abandoned.discard(self)

    def _serve(self) -> bool:
        """Run the next call; return whether to stay for another."""
        call = self._next()
        if call is None:
            return False
        begun = call.begin(self)
        if begun:
            value, error = None, None
            try:
                value = call.context.run(call.operation)
            except BaseException as raised:
                trace = raised.__traceback__
                # Without our own frame, which outlives the call.
                error = raised.with_traceback(trace.tb_next if trace else None)
                del trace
            if not call.finish(value, error):
                return False
            del value, error
        done = call.done
        del call
        # Idle before the caller hears of it: its next call then finds this thread, not a new one.
        stays = len(_idle) < MAX_IDLE_THREADS
        if stays:
            _idle.append(self)
        if begun:
            done.release()
        return stays

    def _next(self) -> _Call | None:
        while not self._wake.acquire(True, IDLE_SECONDS):
            with self._lock:
                self._retired = self._call is None
            if self._retired:
                with contextlib.suppress(ValueError):
                    _idle.remove(self)
                return None
        call, self._call = self._call, None
        return call


_current = threading.local()
_idle: list[_Worker] = []
_abandoned: set[_Worker] = set()


def _hand_over(call: _Call) -> None:
    with contextlib.suppress(IndexError):
        while True:
            if _idle.pop().offer(call):
                return
    worker = _Worker()
    worker.offer(call)
    worker.thread.start()


def _throw_into(thread: threading.Thread) -> bool:
    """Raise `_Abandoned` in `thread` when it next runs Python code; False where that would harm.

    To be called on a thread of the pool, where no signal is handled and nobody abandons us. The
    interpreter raises one flag for all threads until some thread has met its exception, and while
    that one is blocked in C all others run slower (in 3.11 they stand still if they are traced, by
    a debugger or for coverage). Meeting one of our own lowers the flag; the interpreter raises it
    again when the blocked thread comes back. Between the two throws no Python function is entered.
    """
    import ctypes  # here, as most programs never cut a call off and the import takes 6 ms

    throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
    error = ctypes.py_object(_Abandoned)
    there, here = ctypes.c_ulong(thread.ident or 0), ctypes.c_ulong(threading.get_ident())
    # The exception strikes where the thread stands now, as it cannot move while we do.
    if _would_harm(sys._current_frames()[thread.ident or 0]):
        return False
    try:
        throw(there, error)
        while True:
            throw(here, error)
    except _Abandoned:
        return True


def _would_harm(frame: FrameType | None) -> bool:
    """Tell whether a thread that stands in `frame` might keep a lock or complain on stderr."""
    if frame is not None and frame.f_code.co_name in _HANDLES_A_LOCK:
        return True
    while frame is not None:
        # What is raised in a finaliser or a weak reference's callback goes to `unraisablehook`.
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename in _WEAKREF_FILES:
            return True
        frame = frame.f_back
    return False


def _forget_threads() -> None:
    """Empty the pool in a forked child, where none of its threads exists."""
    _idle.clear()
    _abandoned.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
