"""Which status a report moves its job to, where several reasons compete.

Both stores follow this rule: one calls the function, the other mirrors it in SQL, and the
conformance suite compares every combination with it.
"""

from holdfast.jobs.model import Cancelled, Completed, Failed, JobStatus, Outcome, Retry


def target_status(
    outcome: Outcome, *, past_deadline: bool, cancel_requested: bool, attempts_left: bool
) -> JobStatus:
    """Return where an accepted report moves its job.

    A handler that stopped on request is cancelled, also after the deadline. Otherwise a passed
    deadline comes first, then an end that the attempt reached, then a request to cancel, and only
    then another attempt, if one is left.
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
