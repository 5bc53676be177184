"""Which status a report moves its job to, if several reasons apply.

Both stores follow this rule: one calls the function, the other mirrors it in SQL, and the
conformance suite compares every combination with it.
"""

from holdfast.jobs.model import Cancelled, Completed, Failed, JobStatus, Outcome, Retry


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
