"""What the API answers with: camelCase, timestamps in ISO 8601 and UTC."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast.http.api_errors import ErrorDetail
from holdfast.http.plugins import JobFacts
from holdfast.jobs.model import Attempt, Job, JobEvent, JobStatus


class Model(BaseModel):
    """Fields in snake_case here, in camelCase in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    def as_json(self) -> dict[str, Any]:
        """Return it as it goes over the wire."""
        return self.model_dump(mode="json", by_alias=True)


MetaView: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class Ordered(Model):
    """The body of a request: an unknown field is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


def moment(seconds: float | None) -> datetime | None:
    """Return epoch seconds as a time in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


class JobOut(Model):
    """A job as its owner sees it; the facts of its app are further fields."""

    model_config = ConfigDict(extra="allow")

    id: str
    kind: str
    status: JobStatus
    attempt_count: int
    max_attempts: int
    retry_after: datetime | None
    last_attempt_at: datetime | None
    is_dead_letter: bool
    error: ErrorDetail | None
    can_download: bool
    can_retry: bool
    can_cancel: bool
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    deadline_at: datetime | None
    progress: float | None
    manual_retry_count: int
    held: bool
    cancel_requested: bool

    @classmethod
    def of(cls, job: Job, facts: JobFacts) -> "JobOut":
        """Return `job` with what its app knows of it."""
        error = job.error
        created = moment(job.created_at)
        assert created is not None
        return cls(
            id=job.id,
            kind=job.kind,
            status=job.status,
            attempt_count=job.attempt_count,
            max_attempts=job.max_attempts,
            retry_after=moment(job.retry_after),
            last_attempt_at=moment(job.last_attempt_at),
            is_dead_letter=job.is_dead_letter,
            error=None if error is None else ErrorDetail(code=error.code, message=error.message),
            can_download=facts.can_download,
            can_retry=facts.can_retry,
            can_cancel=not job.status.finished and not job.cancel_requested,
            created_at=created,
            queued_at=moment(job.queued_at),
            started_at=moment(job.started_at),
            completed_at=moment(job.completed_at),
            failed_at=moment(job.failed_at),
            deadline_at=moment(job.deadline_at),
            progress=job.progress,
            manual_retry_count=job.manual_retry_count,
            held=job.held,
            cancel_requested=job.cancel_requested,
            **facts.values,
        )


class ErrorOut(BaseModel):
    """The body of every error."""

    error: ErrorDetail
    job: JobOut | None = Field(
        default=None, description="The record of an upload that was refused; else left out."
    )


ERROR_ANSWERS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut, "description": "Refused; the message says why."}
    for status in (400, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503)
}
"""What OpenAPI says of every route's errors."""


class JobAnswer(Model):
    """One job."""

    job: JobOut


class ChangedAnswer(Model):
    """One job, and what was done to it."""

    message: str
    job: JobOut


class JobsAnswer(Model):
    """Jobs, newest first; `nextCursor` continues the list, null ends it."""

    jobs: list[JobOut]
    next_cursor: str | None


class EventOut(Model):
    """One line of a job's history."""

    sequence: int
    name: str
    at: datetime
    attempt: int
    duration_ms: float | None
    error_code: str | None
    meta: dict[str, Any] | None

    @classmethod
    def of(cls, event: JobEvent, shown: MetaView) -> "EventOut":
        """Return `event`; `shown` says how its app shows `meta`."""
        at = moment(event.at)
        assert at is not None
        return cls(
            sequence=event.sequence,
            name=event.name,
            at=at,
            attempt=event.attempt,
            duration_ms=event.duration_ms,
            error_code=event.error_code,
            meta=_object(event.meta, shown),
        )


class AttemptOut(Model):
    """One run of a job; `retryAfterMs` is the delay that followed it."""

    number: int
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: float | None
    outcome: str | None
    error: ErrorDetail | None
    retry_after_ms: float | None
    meta: dict[str, Any] | None

    @classmethod
    def of(cls, attempt: Attempt, shown: MetaView) -> "AttemptOut":
        """Return `attempt`; `shown` says how its app shows `meta`."""
        error = attempt.error
        return cls(
            number=attempt.number,
            started_at=moment(attempt.started_at),
            finished_at=moment(attempt.finished_at),
            duration_ms=_milliseconds(attempt.duration),
            outcome=attempt.outcome,
            error=None if error is None else ErrorDetail(code=error.code, message=error.message),
            retry_after_ms=_milliseconds(attempt.retry_after),
            meta=_object(attempt.meta, shown),
        )


class HistoryAnswer(Model):
    """A job's history, oldest first."""

    events: list[EventOut]
    attempts: list[AttemptOut]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _object(text: str | None, shown: MetaView) -> dict[str, Any] | None:
    value = json.loads(text) if text else None
    return shown(value) if isinstance(value, dict) else None
