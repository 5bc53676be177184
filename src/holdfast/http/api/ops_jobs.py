"""What operators look at and do with the jobs of all owners."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BeforeValidator, Field

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError, refusing_cursors
from holdfast.http.audited import OpsRoute
from holdfast.http.ops_schemas import (
    DeletedAnswer,
    JobMove,
    OpsAttemptOut,
    OpsJobAnswer,
    OpsJobMoveAnswer,
    OpsJobOut,
    OpsJobsAnswer,
    Text,
)
from holdfast.http.schemas import ERROR_ANSWERS, EventOut, Model
from holdfast.http.served_app import state_of
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import JobFilter

router = APIRouter(
    prefix="/api/ops/jobs", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)

_NOT_FINISHED = "Only a finished job can be deleted; cancel it first."


def _in_words(value: object) -> object:
    """Refuse a number: whether it means seconds or milliseconds would be a guess."""
    try:
        float(str(value))
    except ValueError:
        return value
    raise ValueError("a time in ISO 8601 is needed")


def _with_offset(value: datetime) -> datetime:
    """Take a time without an offset as UTC, wherever the server stands."""
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


Time = Annotated[datetime, BeforeValidator(_in_words), AfterValidator(_with_offset)]


class OpsJobQuery(Model):
    """Which jobs; what is left out does not narrow the choice."""

    status: list[JobStatus] = Field(default=[], max_length=10)
    kind: list[Text] = Field(default=[], max_length=50)
    queue: Text | None = Field(default=None, min_length=1, max_length=200)
    owner: Text | None = Field(default=None, min_length=1, max_length=500)
    error: Text | None = Field(
        default=None, max_length=500, description="An error code, or a part of an error message."
    )
    attempts: int | None = Field(default=None, ge=0, le=10_000, description="At least so many.")
    since: Time | None = Field(default=None, description="Created then or later.")
    until: Time | None = Field(default=None, description="Created before then.")
    q: Text | None = Field(
        default=None, max_length=500, description="A part of id, kind, owner, error or meta."
    )
    cursor: str | None = Field(default=None, max_length=500)
    limit: int = Field(default=50, ge=1, le=200)

    def as_filter(self) -> JobFilter:
        """Return it as the engine takes it."""
        error = self.error or ""
        is_code = error.isascii() and error.isidentifier() and error.isupper()
        return JobFilter(
            statuses=tuple(self.status),
            kinds=tuple(self.kind),
            queue=self.queue,
            owner=self.owner,
            error_code=error if is_code else None,
            error_text=error if error and not is_code else None,
            min_attempts=self.attempts,
            created_from=None if self.since is None else self.since.timestamp(),
            created_to=None if self.until is None else self.until.timestamp(),
            text=self.q or None,
        )


@router.get("")
async def list_all_jobs(request: Request, asked: Annotated[OpsJobQuery, Query()]) -> OpsJobsAnswer:
    """List jobs of all owners, newest first.

    A filter that no index serves is applied to the newest 5000 jobs only: then `complete` is
    false, `searchedFrom` says how far back the search went, and the cursor goes on from there.
    """
    state = state_of(request)
    with refusing_cursors():
        found = await state.engine.search(
            asked.as_filter(), cursor=asked.cursor or None, limit=asked.limit
        )
    jobs = [OpsJobOut.of(job, state.facts(job)) for job in found.jobs]
    return OpsJobsAnswer.from_record(found, jobs=jobs)


@router.get("/{job_id}")
async def show_any_job(request: Request, job_id: str) -> OpsJobAnswer:
    """Show a job of any owner, with its history and the tracebacks of its attempts."""
    state = state_of(request)
    job = await state.any_job(job_id)
    events, attempts = await asyncio.gather(
        state.engine.events(job.id), state.engine.attempts(job.id)
    )
    shown = state.history_meta(job)
    return OpsJobAnswer(
        job=OpsJobOut.of(job, state.facts(job)),
        events=[EventOut.of(event, shown) for event in events],
        attempts=[OpsAttemptOut.of(attempt, shown) for attempt in attempts],
    )


@router.post("/{job_id}/{move}")
async def move_any_job(request: Request, job_id: str, move: JobMove) -> OpsJobMoveAnswer:
    """Retry a failed job, start a waiting one now, or cancel one that is not finished."""
    state = state_of(request)
    job = await state.any_job(job_id)
    moved = await move.action_of(state.engine)(job.id)
    return OpsJobMoveAnswer(job=OpsJobOut.of(moved, state.facts(moved)))


@router.delete("/{job_id}")
async def delete_any_job(request: Request, job_id: str) -> DeletedAnswer:
    """Delete a finished job, its history and its files."""
    state = state_of(request)
    job = await state.any_job(job_id)
    deleted = await state.engine.delete(job.id)
    if not deleted:
        raise ApiError(ErrorCode.INVALID_STATE, _NOT_FINISHED)
    return DeletedAnswer(deleted=list(deleted))
