"""What running code can ask about its own attempt: how much time is left, and should it stop.

A blocking call cannot be stopped from outside: one that is over its time is abandoned and runs on.
Code that takes long can ask `remaining()` and `cancelled()` and end by itself. Both work inside
guarded operations and job handlers, blocking or asynchronous, and in threads and tasks that copy
the context variables (`asyncio.to_thread`, `asyncio.create_task`).
"""

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Protocol

__all__ = ["RUNNING", "RunningAttempt", "TimeLimit", "cancelled", "remaining"]


class RunningAttempt(Protocol):
    """An attempt of a guarded operation or of a job, as the code in it sees it."""

    @property
    def cancel_requested(self) -> bool:
        """Whether the attempt was asked to stop, whatever its time."""
        ...

    def remaining(self) -> float | None:
        """Return the seconds left, never below 0; None without a limit."""
        ...


RUNNING: ContextVar[RunningAttempt | None] = ContextVar("holdfast_running_attempt", default=None)
"""The innermost attempt, of a guarded call or of a job, that the current code runs in."""


def remaining() -> float | None:
    """Return the seconds left for the running attempt, never below 0; None without a limit.

    Of limits around each other (a guarded call in another one, or in a job) the soonest counts.
    """
    attempt = RUNNING.get()
    return None if attempt is None else attempt.remaining()


def cancelled() -> bool:
    """Return whether the running attempt should end: it is over its time, or was given up.

    True once its time limit has passed, its caller was interrupted or cancelled, or its job was
    asked to stop. A guarded call drops what its attempt returns after its time.
    """
    attempt = RUNNING.get()
    return attempt is not None and (attempt.cancel_requested or attempt.remaining() == 0)


class TimeLimit:
    """The time limit of one attempt of a guarded operation: a context manager around the attempt.

    Args:
        seconds: how long the attempt may take, from now; None for as long as it likes.
        monotonic: the clock that counts them.
    """

    __slots__ = ("_cancelled", "_ends_at", "_monotonic", "_outer", "_token")

    def __init__(self, seconds: float | None, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._ends_at = None if seconds is None else monotonic() + seconds
        self._outer = RUNNING.get()
        self._cancelled = False
        self._token: Token[RunningAttempt | None] | None = None

    def __enter__(self) -> None:
        self._token = RUNNING.set(self)

    def __exit__(self, kind: object, *_: object) -> None:
        # The result of what a failed attempt has left running is not used.
        self._cancelled = kind is not None
        token, self._token = self._token, None
        if token is not None:
            RUNNING.reset(token)

    @property
    def over(self) -> bool:
        """Whether the time of this attempt is over, whatever those around it have left."""
        return self._ends_at is not None and self._monotonic() >= self._ends_at

    @property
    def cancel_requested(self) -> bool:
        """Whether this attempt, or one around it, was given up."""
        return self._cancelled or (self._outer is not None and self._outer.cancel_requested)

    def remaining(self) -> float | None:
        """Return the seconds left, of all limits around each other the fewest."""
        outer = None if self._outer is None else self._outer.remaining()
        if self._ends_at is None:
            return outer
        own = max(0.0, self._ends_at - self._monotonic())
        return own if outer is None else min(own, outer)
