"""Log failed attempts and dead letters, in the same words wherever they are found.

Every record carries `job_id` and what else is known of the attempt (`kind`, `attempt`, `code`,
`owner`) as attributes, for handlers that write structured logs.
"""

import logging
from datetime import UTC, datetime

from holdfast.jobs.model import DeadLetterReason, JobError
from holdfast.jobs.store_values import FailedJob


def log_retry(
    logger: logging.Logger, job: FailedJob, error: JobError, retry_at: float | None = None
) -> None:
    """Log an attempt that failed and is followed by another at `retry_at`, in epoch seconds.

    Without `retry_at` the job may start again at once.
    """
    following = "it is queued again" if retry_at is None else f"next try at {_iso(retry_at)}"
    logger.warning(
        "%s failed %s: %s: %s; %s",
        job, _attempt(job), error.code, error.message, following, extra=_fields(job, error),
    )  # fmt: skip


def log_failure(logger: logging.Logger, job: FailedJob, error: JobError) -> None:
    """Log a job that is not tried again, of a kind that has no dead letters."""
    logger.warning(
        "%s failed for good%s: %s: %s",
        job, _after(job), error.code, error.message, extra=_fields(job, error),
    )  # fmt: skip


def log_final_failure(
    logger: logging.Logger, job: FailedJob, error: JobError, reason: DeadLetterReason
) -> None:
    """Log a job that the store has ended: a dead letter, unless its kind has none."""
    if job.dead_letter:
        log_dead_letter(logger, job, error, reason)
    else:
        log_failure(logger, job, error)


def log_dead_letter(
    logger: logging.Logger,
    job: FailedJob,
    error: JobError,
    reason: DeadLetterReason,
    *,
    traceback: str | None = None,
    exception: BaseException | None = None,
) -> None:
    """Log a job that is not tried again.

    Args:
        traceback: written after the message by every formatter of the standard library.
        exception: given to handlers that report exceptions themselves.
    """
    if not logger.isEnabledFor(logging.ERROR):
        return
    file, line, function, _ = logger.findCaller(stacklevel=2)
    information = None
    if exception is not None:
        information = (type(exception), exception, exception.__traceback__)
    record = logger.makeRecord(
        logger.name, logging.ERROR, file, line,
        "%s is a dead letter%s (%s): %s: %s",
        (job, _after(job), reason, error.code, error.message),
        information, function, _fields(job, error),
    )  # fmt: skip
    # A formatter that finds this text does not format the exception.
    record.exc_text = traceback
    logger.handle(record)


def _after(job: FailedJob) -> str:
    if job.attempt is None:
        return ""
    return f" after {_attempt(job)}" if job.attempt else " without an attempt"


def _attempt(job: FailedJob) -> str:
    return f"attempt {job.attempt} of {job.max_attempts}"


def _fields(job: FailedJob, error: JobError) -> dict[str, object]:
    """Return the attributes of a record."""
    known = {
        "job_id": job.job_id, "kind": job.kind, "attempt": job.attempt,
        "code": str(error.code), "owner": job.owner,
    }  # fmt: skip
    return {name: value for name, value in known.items() if value is not None}


def _iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:g} s after the epoch"  # beyond the year 9999
