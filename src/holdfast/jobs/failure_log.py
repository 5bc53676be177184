"""Log failed attempts and dead letters, in the same words wherever they are found.

Every record carries `job_id` and what else is known of the attempt (`kind`, `attempt`, `code`,
`owner`) as attributes, for handlers that write structured logs.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.jobs.model import DeadLetterReason, JobError


@dataclass(frozen=True, slots=True)
class FailedJob:
    """The job of a line; only the id is known of a job that maintenance has failed."""

    job_id: str
    kind: str | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    owner: str | None = None

    def __str__(self) -> str:
        return f"job {self.job_id}" + (f" ({self.kind})" if self.kind else "")

    @property
    def which_attempt(self) -> str:
        """Name the attempt: "attempt 1 of 3"."""
        return f"attempt {self.attempt} of {self.max_attempts}"

    def fields(self, error: JobError) -> dict[str, object]:
        """Return the attributes of a record."""
        known = {
            "job_id": self.job_id, "kind": self.kind, "attempt": self.attempt,
            "code": str(error.code), "owner": self.owner,
        }  # fmt: skip
        return {name: value for name, value in known.items() if value is not None}


def log_retry(logger: logging.Logger, job: FailedJob, error: JobError, retry_at: float) -> None:
    """Log an attempt that failed and is followed by another at `retry_at`, in epoch seconds."""
    logger.warning(
        "%s failed %s: %s: %s; next try at %s",
        job, job.which_attempt, error.code, error.message, _iso(retry_at), extra=job.fields(error),
    )  # fmt: skip


def log_dead_letter(
    logger: logging.Logger,
    job: FailedJob,
    error: JobError,
    reason: DeadLetterReason | None,
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
    after = "" if job.attempt is None else f" after {job.which_attempt}"
    file, line, function, _ = logger.findCaller(stacklevel=2)
    information = None
    if exception is not None:
        information = (type(exception), exception, exception.__traceback__)
    record = logger.makeRecord(
        logger.name, logging.ERROR, file, line,
        "%s is a dead letter%s (%s): %s: %s",
        (job, after, reason or "failed", error.code, error.message),
        information, function, job.fields(error),
    )  # fmt: skip
    # A formatter that finds this text does not format the exception.
    record.exc_text = traceback
    logger.handle(record)


def _iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:g} s after the epoch"  # beyond the year 9999
