"""What the API answers with: camelCase, timestamps in ISO 8601 and UTC."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast.http.api_errors import ErrorDetail
from holdfast.http.plugins import JobFacts
from holdfast.jobs.held import HeldBy
from holdfast.jobs.history import Attempt, JobEvent
from holdfast.jobs.model import Job, JobStatus


class Model(BaseModel):
    """Fields in snake_case here, in camelCase in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)

    @classmethod
    def from_record(cls, record: object, /, **own: object) -> Self:
        """Return `record` with the values of `own` in place of its attributes."""
        stored = {name: getattr(record, name) for name in cls.model_fields if name not in own}
        return cls.model_validate({**stored, **own})

    def as_json(self) -> dict[str, Any]:
        """Return it as it goes over the wire."""
        return self.model_dump(mode="json", by_alias=True)


MetaView: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class Ordered(Model):
    """The body of a request: an unknown field is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


def moment(seconds: float) -> datetime:
    """Return epoch seconds as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


Moment = Annotated[datetime, BeforeValidator(moment)]
"""A field that takes epoch seconds, and is a time in UTC in the JSON."""


class LastErrorOut(ErrorDetail):
    """The error of a job's last failed attempt, and the number of that attempt."""

    attempt: int


class JobOut(Model):
    """A job as its owner sees it; the facts of its app are further fields."""

    model_config = ConfigDict(extra="allow")

    id: str
    kind: str
    status: JobStatus
    attempt_count: int
    max_attempts: int
    retry_after: Moment | None
    last_attempt_at: Moment | None
    is_dead_letter: bool
    error: ErrorDetail | None
    last_error: LastErrorOut | None
    can_download: bool
    can_retry: bool
    can_cancel: bool
    created_at: Moment
    queued_at: Moment | None
    started_at: Moment | None
    completed_at: Moment | None
    failed_at: Moment | None
    deadline_at: Moment | None
    expires_at: Moment | None
    progress: float | None
    manual_retry_count: int
    held: bool
    held_by: HeldBy | None
    cancel_requested: bool

    @classmethod
    def of(cls, job: Job, facts: JobFacts) -> Self:
        """Return `job` with what its app knows of it."""
        return cls.from_record(
            job,
            can_download=facts.can_download,
            can_retry=facts.can_retry,
            expires_at=facts.expires_at,
            can_cancel=not job.status.finished and not job.cancel_requested,
            **facts.values,
        )


class ErrorOut(BaseModel):
    """The body of every error."""

    error: ErrorDetail
    job: JobOut | None = Field(
        default=None, description="The record of an upload that was refused; else left out."
    )


_REFUSED = "Refused; the message says why."
_ERROR_BODY = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorOut"}}}
# FastAPI builds a serializer for each `model` of each route, so one status declares the model and
# the others refer to it: eleven would take most of the time until the first answer.
ERROR_ANSWERS: dict[int | str, dict[str, Any]] = {
    **{
        status: {"content": _ERROR_BODY, "description": _REFUSED}
        for status in (400, 403, 404, 405, 408, 409, 413, 422, 429, 503)
    },
    500: {"model": ErrorOut, "description": _REFUSED},
}
"""What OpenAPI says of every route's errors."""


class JobAnswer(Model):
    """One job."""

    job: JobOut


class ChangedAnswer(Model):
    """One job, and what was done to it."""

    message: str
    job: JobOut


class RefusedOut(Model):
    """A job that was left as it is, and why."""

    id: str
    error: ErrorDetail


class BulkAnswer(Model):
    """What was done to many jobs: the ids of those that changed, and those that were refused."""

    done: list[str]
    refused: list[RefusedOut]


class JobsAnswer(Model):
    """Jobs, newest first; `nextCursor` continues the list, null ends it."""

    jobs: list[JobOut]
    next_cursor: str | None


class EventOut(Model):
    """One line of a job's history."""

    sequence: int
    name: str
    at: Moment
    attempt: int
    duration_ms: float | None
    error_code: str | None
    meta: dict[str, Any] | None

    @classmethod
    def of(cls, event: JobEvent, shown: MetaView) -> "EventOut":
        """Return `event`; `shown` says how its app shows `meta`."""
        return cls.from_record(event, meta=_object(event.meta, shown))


class AttemptOut(Model):
    """One run of a job; `retryAfterMs` is the delay that followed it."""

    number: int
    started_at: Moment | None
    finished_at: Moment | None
    duration_ms: float | None
    outcome: str | None
    error: ErrorDetail | None
    retry_after_ms: float | None
    meta: dict[str, Any] | None

    @classmethod
    def of(cls, attempt: Attempt, shown: MetaView) -> Self:
        """Return `attempt`; `shown` says how its app shows `meta`."""
        return cls.from_record(
            attempt,
            duration_ms=_milliseconds(attempt.duration),
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
