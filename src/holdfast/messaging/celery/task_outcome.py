"""What the exception of a task means: retry or dead letter, after which delay, and for whom."""

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from celery.exceptions import Reject, Retry

from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import Category, RetryLater
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.error_text import one_line
from holdfast.outbox.handling import Release
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.policy_diagnosis import diagnose_under


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A delivery that ends without a result; see `ReliableTask.messages_for`.

    Attributes:
        why: `RETRY`, `HOLD` (its downstream's breaker is open) or `DEAD`.
        code: the error's code.
        message: the error in one line.
        attempts: how many were made.
        request_id: of the request.
        aggregate_id: what it speaks of.
    """

    why: Release
    code: str
    message: str
    attempts: int
    request_id: str
    aggregate_id: str


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What is known of an exception.

    Attributes:
        cause: the exception itself, or the one behind `self.retry`.
        after: seconds to wait that the task asked for; None leaves that to the policy.
        retry_after: seconds that the downstream asked to wait.
    """

    cause: BaseException
    category: Category
    code: str
    message: str
    verdict: Verdict
    after: float | None = None
    retry_after: float | None = None

    def delay(self, policy: RetryPolicy, attempt: int, rng: Random) -> float:
        """Return the seconds until the next attempt.

        What the task asked for holds as it is. Else the policy's backoff, or the downstream's wish
        if that is longer, and never more than the backoff's cap.
        """
        if self.after is not None:
            return self.after
        backoff = policy.backoff
        return min(max(backoff.delay(attempt, rng), self.retry_after or 0.0), float(backoff.cap))


def examine(policy: RetryPolicy, error: BaseException, name: str) -> TaskFailure:
    """Return what `error` means under `policy`; `name` is the task's, for the log."""
    now = SYSTEM_CLOCK.wall()
    cause, after, category = error, None, None
    if isinstance(error, Retry):  # raised by `self.retry`
        cause, after = error.exc or error, seconds_until(error.when, now)
        category = Category.TRANSIENT
    elif isinstance(error, Reject):
        category = Category.TRANSIENT if error.requeue else Category.PERMANENT
    elif isinstance(error, RetryLater):
        after = error.after
    seen = diagnose_under(policy, cause, name=name, wall_now=now)
    return TaskFailure(
        cause,
        category or (seen.category if isinstance(error, Exception) else Category.TRANSIENT),
        seen.code,
        one_line(cause),
        Verdict.FAILURE if seen.counts else Verdict.NEITHER,
        after,
        seen.retry_after,
    )


def seconds_until(when: object, now: float) -> float | None:
    """Return the seconds until `when`, never below 0; None where it is None.

    Args:
        when: seconds, or a moment as Celery takes it: a datetime or its ISO 8601 text, in UTC
            where it names no time zone.
        now: epoch seconds.
    """
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    if isinstance(when, datetime):
        moment = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now)
    return max(0.0, float(when)) if isinstance(when, int | float) else None
