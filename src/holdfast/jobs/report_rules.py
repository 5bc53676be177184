"""Which status a job gets after a report, or after a rescue because its worker died.

Both stores follow these rules: one calls the functions, the other mirrors them in SQL, and the
conformance suite compares every combination with them.
"""

from holdfast.errors import ERRORS, ErrorCode
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    Failed,
    JobError,
    JobStatus,
    Outcome,
    Retry,
)

TIMED_OUT = JobError(ErrorCode.TIMEOUT, ERRORS[ErrorCode.TIMEOUT].message)
"""The error of a job whose deadline has passed."""
RESCUE_SPACING = 0.2
"""Seconds between jobs that one rescue requeues one after the other."""
RESCUE_PLACES = 50
"""How many such jobs follow each other; those after them begin again, so that none waits long."""
LEASE_LOST = JobError(ErrorCode.LEASE_LOST, ERRORS[ErrorCode.LEASE_LOST].message)
"""The error of a job whose worker died or lost its lease."""


def target_status(
    outcome: Outcome, *, past_deadline: bool, cancel_requested: bool, attempts_left: bool
) -> JobStatus:
    """Return the new status of a job after an accepted report.

    A job whose handler stopped on request is cancelled, also after the deadline. Otherwise the
    order is: a passed deadline, a final outcome, a cancel request, another attempt if one is left.
    """
    if isinstance(outcome, Cancelled):
        return JobStatus.CANCELLED
    if past_deadline:
        return JobStatus.FAILED
    if isinstance(outcome, Completed):
        return JobStatus.COMPLETE
    if isinstance(outcome, Failed):
        return JobStatus.FAILED
    if cancel_requested:
        return JobStatus.CANCELLED
    if isinstance(outcome, Retry) and outcome.counted and not attempts_left:
        return JobStatus.FAILED
    return JobStatus.QUEUED


def rescued_status(*, cancel_requested: bool, attempts_left: bool) -> JobStatus:
    """Return the new status of a job whose worker died or lost its lease.

    Its deadline has not passed: otherwise it fails with `TIMEOUT`, as a waiting job does. Nothing
    was reported, so a cancel request comes first. A job without attempts left fails, because it
    may be what kills its workers; it becomes a dead letter, unless its kind has none.
    """
    if cancel_requested:
        return JobStatus.CANCELLED
    return JobStatus.QUEUED if attempts_left else JobStatus.FAILED


def rescue_delay(attempts: int, place: int) -> float:
    """Return the seconds after which a rescued job may start again.

    After its first attempt it may start at once. After a later one it may be what kills its
    workers, so those jobs become ready one after the other: the others that were lost with it have
    a chance to end before it starts. None waits for more than 10 seconds.

    Args:
        attempts: how many attempts the job has had.
        place: how many older jobs like that the same rescue requeues.
    """
    return 0.0 if attempts < 2 else place % RESCUE_PLACES * RESCUE_SPACING
