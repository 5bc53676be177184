"""A job's history as its page shows it: attempts, delays, and manual actions between them."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.http.rendered import Step
from holdfast.jobs.history import Attempt, JobEvent
from holdfast.jobs.model import AttemptOutcome, EventName

_OUTCOMES = {
    None: ("running", "Running now"),
    AttemptOutcome.COMPLETE: ("done", "Succeeded"),
    AttemptOutcome.RETRY: ("failed", "Failed"),
    AttemptOutcome.FAILED: ("failed", "Failed"),
    AttemptOutcome.RELEASED: ("queued", "Handed back"),
    AttemptOutcome.CANCELLED: ("cancelled", "Cancelled"),
    AttemptOutcome.LEASE_LOST: ("failed", "Lost its worker"),
    AttemptOutcome.TIMEOUT: ("failed", "Ran out of time"),
}
"""What an attempt's outcome looks like, and what it is called."""
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
    EventName.MANUAL_RETRY: "Retried by hand, attempts counted from one",
    EventName.EXPEDITED: "Made ready before its time",
    EventName.LATE_RESULT: "A result came too late",
    EventName.PROGRESS: "Progress",
    EventName.DISCARDED: "Taken out of the dead letters",
}
_BY_HAND = {
    EventName.MANUAL_RETRY: "Retried by hand",
    EventName.EXPEDITED: "Retry now requested",
}


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One event. `at` is epoch seconds, `took` seconds."""

    at: float
    text: str
    attempt: int
    code: str
    took: float | None


def steps_of(
    attempts: Iterable[Attempt], events: Iterable[JobEvent], *, tracebacks: bool = False
) -> list[Step]:
    """Return a job's attempts, oldest first, and the manual actions between them.

    `tracebacks`: with the tracebacks of attempts, which only operators may see.
    """
    steps = [_step(attempt, tracebacks=tracebacks) for attempt in attempts]
    steps += [
        Step("queued", _BY_HAND[event.name], event.at) for event in events if event.name in _BY_HAND
    ]
    return sorted(steps, key=lambda step: step.at)


def lines_of(events: Iterable[JobEvent]) -> list[HistoryLine]:
    """Return all events, oldest first."""
    return [
        HistoryLine(
            at=event.at,
            text=_EVENTS.get(event.name, str(event.name).replace("_", " ")),
            attempt=event.attempt,
            code=str(event.error_code or ""),
            took=None if event.duration_ms is None else event.duration_ms / 1000,
        )
        for event in events
    ]


def _step(attempt: Attempt, *, tracebacks: bool) -> Step:
    look, outcome = _OUTCOMES[attempt.outcome]
    return Step(
        look=look,
        title=f"Attempt {attempt.number}",
        at=attempt.started_at,
        outcome=outcome,
        error="" if attempt.error is None else attempt.error.message,
        code="" if attempt.error is None else str(attempt.error.code),
        took=attempt.duration,
        wait=attempt.retry_after if attempt.outcome is AttemptOutcome.RETRY else None,
        traceback=(attempt.traceback or "") if tracebacks else "",
    )
