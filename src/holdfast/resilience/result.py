"""The result of a guarded call."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from holdfast.errors import Category

T = TypeVar("T")


class StopReason(StrEnum):
    """Why a guarded call ended."""

    SUCCESS = "SUCCESS"
    ATTEMPTS = "ATTEMPTS"
    """Every attempt that the policy allows was made."""
    PERMANENT = "PERMANENT"
    """Another attempt cannot help: the error is permanent."""
    AMBIGUOUS = "AMBIGUOUS"
    """The effect may have happened, and the policy says that repeating it is not safe."""
    BREAKER = "BREAKER"
    """The breaker refused the call, or opened in the middle of it."""
    DEADLINE = "DEADLINE"
    """The deadline passed, or the next wait would have passed it."""
    BUDGET = "BUDGET"
    """The retry budget of this name is used up."""
    RATE_LIMIT = "RATE_LIMIT"
    """The rate limit, or a server's Retry-After, asks for a longer wait than the policy allows."""
    CONCURRENCY = "CONCURRENCY"
    """No turn came free in time."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One failed attempt: its number from 1, its error, and times in seconds.

    `delay` is the wait that followed it; 0 where none did.
    """

    number: int
    error: BaseException
    category: Category
    delay: float
    duration: float


class RetryResult(Generic[T]):
    """The outcome of a guarded call.

    Attributes:
        value: what the operation returned; None where not ok.
        error: the error that ended the call; None where ok.
        attempts: attempts made.
        total_time: seconds from the call to its end, waits included.
        history: one record for each failed attempt.
        stop_reason: why it ended.
        retry_at: when it makes sense to try again, in epoch seconds, where that is known.
    """

    __slots__ = ()

    value: T | None
    error: BaseException | None
    attempts: int
    total_time: float
    history: tuple[FailedAttempt, ...]
    stop_reason: StopReason
    retry_at: float | None

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.error is None

    @property
    def breaker_triggered(self) -> bool:
        """Whether the breaker refused or cut the call."""
        return self.stop_reason is StopReason.BREAKER

    def unwrap(self) -> T:
        """Return the value, or raise the error."""
        error = self.error
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback holds this frame: let the frame hold neither in turn.
                del self, error
        return self.value  # type: ignore[return-value]  # T may itself be Optional: None is a value

    def __repr__(self) -> str:
        outcome = f"value={self.value!r}" if self.ok else f"error={self.error!r}"
        return (
            f"RetryResult({outcome}, attempts={self.attempts}, "
            f"stop_reason={self.stop_reason}, total_time={self.total_time:.6f})"
        )


class FirstTry(RetryResult[T]):
    """A call that succeeded at its first attempt: only two of its facts are its own.

    It has no constructor: the hot path sets both itself, at a quarter of the cost.
    """

    __slots__ = ("total_time", "value")

    error = None
    attempts = 1
    history = ()
    stop_reason = StopReason.SUCCESS
    retry_at = None


@dataclass(slots=True, eq=False, repr=False)
class Ended(RetryResult[T]):
    """Any other end of a call."""

    value: T | None
    error: BaseException | None
    attempts: int
    total_time: float
    stop_reason: StopReason
    history: tuple[FailedAttempt, ...]
    retry_at: float | None = None
