"""What commands print of jobs: records for `holdfast.cli.output`."""

import json
from typing import TYPE_CHECKING

from holdfast.cli.output import Record, camel, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.jobs.history import Attempt, JobEvent
    from holdfast.jobs.model import Job, JobError
    from holdfast.jobs.views import JobFilter

JOB_COLUMNS = (
    "id", "status", "kind", "attempt_count", "held_by", "created_at", "ready_at", "error",
)  # fmt: skip


def job_record(job: "Job") -> Record:
    """Return a job without its arguments and its result, which may hold what is private."""
    return {
        "id": job.id,
        "kind": job.kind,
        "queue": job.queue,
        "downstream": job.downstream,
        "owner": job.owner,
        "status": job.status,
        "attempt_count": job.attempt_count,
        "max_attempts": job.max_attempts,
        "manual_retry_count": job.manual_retry_count,
        "priority": job.priority,
        "dead_letter": job.dead_letter,
        "error": _error_line(job.last_error if job.error is None else job.error),
        "held_by": job.held_by,
        "cancel_requested": job.cancel_requested,
        "progress": job.progress,
        "worker_id": job.worker_id,
        "created_at": moment(job.created_at),
        "ready_at": moment(job.ready_at),
        "started_at": moment(job.started_at),
        "finished_at": moment(job.finished_at),
        "lease_expires_at": moment(job.lease_expires_at),
        "deadline_at": moment(job.deadline_at),
    }


def attempt_record(attempt: "Attempt") -> Record:
    """Return one run of a job; `duration` and `retry_after` are seconds."""
    return {
        "number": attempt.number,
        "started_at": moment(attempt.started_at),
        "duration": _rounded(attempt.duration),
        "outcome": attempt.outcome or "running",
        "retry_after": _rounded(attempt.retry_after),
        "worker_id": attempt.worker_id,
        "error": _error_line(attempt.error),
        "traceback": attempt.traceback,
    }


def event_record(event: "JobEvent") -> Record:
    """Return one event of a job's history."""
    return {
        "at": moment(event.at),
        "name": event.name,
        "attempt": event.attempt,
        "error_code": event.error_code,
        "meta": None if event.meta is None else json.loads(event.meta),
    }


def history(
    job: "Job", attempts: "Sequence[Attempt]", events: "Sequence[JobEvent]"
) -> dict[str, object]:
    """Return a job with its attempts and events, for JSON."""
    return {
        **job_record(job),
        "attempt_history": [camel(attempt_record(each)) for each in attempts],
        "events": [camel(event_record(each)) for each in events],
    }


def job_filter(
    kinds: "Sequence[str] | None", error: str | None, group: str | None = None
) -> "JobFilter":
    """Return a filter; `error` is an error code, else a part of the message."""
    from holdfast.jobs.views import JobFilter

    is_code = error is not None and error == error.upper() and error.replace("_", "").isalnum()
    return JobFilter(
        kinds=tuple(kinds or ()),
        error_code=error if is_code else None,
        error_text=None if is_code else error,
        error_group=group,
    )


def _error_line(error: "JobError | None") -> str | None:
    return None if error is None else f"{error.code}: {error.message}"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
