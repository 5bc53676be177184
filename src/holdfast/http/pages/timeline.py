"""A job's history as its page shows it: attempts, delays, and manual actions between them."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.jobs.model import Attempt, AttemptOutcome, EventName, JobEvent

_OUTCOMES = {
    None: "Running now",
    AttemptOutcome.COMPLETE: "Succeeded",
    AttemptOutcome.RETRY: "Failed",
    AttemptOutcome.FAILED: "Failed",
    AttemptOutcome.RELEASED: "Handed back",
    AttemptOutcome.CANCELLED: "Cancelled",
    AttemptOutcome.LEASE_LOST: "Lost its worker",
    AttemptOutcome.TIMEOUT: "Ran out of time",
}
_LOOKS = {
    None: "running",
    AttemptOutcome.COMPLETE: "done",
    AttemptOutcome.RETRY: "failed",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.RELEASED: "queued",
    AttemptOutcome.CANCELLED: "cancelled",
    AttemptOutcome.LEASE_LOST: "failed",
    AttemptOutcome.TIMEOUT: "failed",
}
_EVENTS = {
    EventName.UPLOADED: "Upload begun",
    EventName.QUEUED: "Queued",
    EventName.PROCESSING: "Attempt begun",
    EventName.RETRY: "Attempt failed, another one scheduled",
    EventName.RELEASED: "Handed back to the queue; the attempt does not count",
    EventName.LEASE_LOST: "The worker was lost",
    EventName.COMPLETE: "Complete",
    EventName.FAILED: "Failed",
    EventName.CANCEL_REQUESTED: "Asked to stop",
    EventName.CANCELLED: "Cancelled",
    EventName.MANUAL_RETRY: "Retried by hand, attempts counted anew",
    EventName.EXPEDITED: "Retried before its time, by hand",
    EventName.LATE_RESULT: "A result came too late",
    EventName.PROGRESS: "Progress",
    EventName.DISCARDED: "Taken out of the dead letters",
}
_BY_HAND = {
    EventName.MANUAL_RETRY: "Retried by hand",
    EventName.EXPEDITED: "Told to retry now",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt, with the wait that followed it; or a manual action, which `title` names.

    `at` is epoch seconds; `took` and `wait` are seconds.
    """

    look: str
    title: str
    at: float
    outcome: str = ""
    error: str = ""
    code: str = ""
    took: float | None = None
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One event. `at` is epoch seconds, `took` seconds."""

    at: float
    text: str
    attempt: int
    code: str
    took: float | None


def steps_of(attempts: Iterable[Attempt], events: Iterable[JobEvent]) -> list[Step]:
    """Return a job's attempts, oldest first, and the manual actions between them."""
    steps = [_step(attempt) for attempt in attempts]
    steps += [
        Step("queued", _BY_HAND[event.name], event.at) for event in events if event.name in _BY_HAND
    ]
    return sorted(steps, key=lambda step: step.at)


def lines_of(events: Iterable[JobEvent]) -> list[Line]:
    """Return all events, oldest first."""
    return [
        Line(
            at=event.at,
            text=_EVENTS.get(event.name, str(event.name).replace("_", " ")),
            attempt=event.attempt,
            code=str(event.error_code or ""),
            took=None if event.duration_ms is None else event.duration_ms / 1000,
        )
        for event in events
    ]


def _step(attempt: Attempt) -> Step:
    waited = attempt.outcome is AttemptOutcome.RETRY
    return Step(
        look=_LOOKS[attempt.outcome],
        title=f"Attempt {attempt.number}",
        at=attempt.started_at,
        outcome=_OUTCOMES[attempt.outcome],
        error="" if attempt.error is None else attempt.error.message,
        code="" if attempt.error is None else str(attempt.error.code),
        took=attempt.duration,
        wait=attempt.retry_after if waited else None,
    )
