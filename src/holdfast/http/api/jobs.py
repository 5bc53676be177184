"""One's own jobs: list, show, history, download, retry, retry now, cancel, remove."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError, refusing_cursors
from holdfast.http.bulk import remove_all
from holdfast.http.plugins import Download
from holdfast.http.schemas import (
    ERROR_ANSWERS,
    AttemptOut,
    ChangedAnswer,
    EventOut,
    HistoryAnswer,
    JobAnswer,
    JobsAnswer,
)
from holdfast.http.served_app import check_kinds, state_of
from holdfast.http.sessions import Owner
from holdfast.jobs.held import HeldBy
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import JobFilter

_PIECE = 256 * 1024
_SANDBOX = "sandbox; default-src 'none'"

router = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=ERROR_ANSWERS)


@router.get("")
async def list_jobs(
    request: Request,
    owner: Owner,
    status: Annotated[list[JobStatus], Query(default_factory=list)],
    kind: Annotated[list[str], Query(default_factory=list)],
    cursor: Annotated[str | None, Query(max_length=500)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> JobsAnswer:
    """List one's own jobs, newest first."""
    state = state_of(request)
    check_kinds(kind)
    where = JobFilter(owner=owner, statuses=tuple(status), kinds=tuple(kind))
    with refusing_cursors():
        page = await state.engine.list(where, cursor=cursor or None, limit=limit)
    jobs = [state.job_out(job) for job in page.jobs]
    return JobsAnswer(jobs=jobs, next_cursor=page.next_cursor)


@router.get("/{job_id}")
async def show_job(request: Request, owner: Owner, job_id: str) -> JobAnswer:
    """Show one job."""
    state = state_of(request)
    return JobAnswer(job=state.job_out(await state.own_job(job_id, owner)))


@router.get("/{job_id}/events")
async def show_history(request: Request, owner: Owner, job_id: str) -> HistoryAnswer:
    """Show a job's history."""
    state = state_of(request)
    job = await state.own_job(job_id, owner)
    events, attempts = await asyncio.gather(
        state.engine.events(job.id), state.engine.attempts(job.id)
    )
    shown = state.history_meta(job)
    return HistoryAnswer(
        events=[EventOut.of(event, shown) for event in events],
        attempts=[AttemptOut.of(attempt, shown) for attempt in attempts],
    )


@router.post("/{job_id}/retry")
async def retry_job(request: Request, owner: Owner, job_id: str) -> ChangedAnswer:
    """Requeue a failed job; its attempts are counted from one again."""
    state = state_of(request)
    job = await state.engine.retry((await state.own_job(job_id, owner)).id)
    return ChangedAnswer(message="Job queued for retry.", job=state.job_out(job))


@router.post("/{job_id}/retry-now")
async def retry_job_now(request: Request, owner: Owner, job_id: str) -> ChangedAnswer:
    """Begin the next attempt of a job that waits for it; nothing else about it changes."""
    state = state_of(request)
    job = await state.engine.retry_now((await state.own_job(job_id, owner)).id)
    message = "Its next attempt begins now."
    if job.held_by is HeldBy.DOWNSTREAM:
        message = f"Its next attempt begins when the {job.downstream} is back."
    elif job.held:
        message = "Its next attempt begins when the pause ends."
    return ChangedAnswer(message=message, job=state.job_out(job))


@router.post("/{job_id}/cancel")
async def cancel_job(request: Request, owner: Owner, job_id: str) -> ChangedAnswer:
    """Cancel a job; one that is running is asked to stop."""
    state = state_of(request)
    job = await state.engine.cancel((await state.own_job(job_id, owner)).id)
    message = "The job was asked to stop."
    if job.status is JobStatus.CANCELLED:
        message = "Job cancelled."
    return ChangedAnswer(message=message, job=state.job_out(job))


@router.delete("/{job_id}", status_code=204)
async def remove_job(request: Request, owner: Owner, job_id: str) -> None:
    """Delete a job, its history and its files, now; one that is not finished is cancelled first.

    A running job that has not stopped within a few seconds is refused; ask again.
    """
    state = state_of(request)
    result = await remove_all(state, [await state.own_job(job_id, owner)])
    for error in result.refused.values():
        raise error


@router.head("/{job_id}/download", include_in_schema=False)
@router.get(
    "/{job_id}/download",
    response_class=Response,
    responses={200: {"description": "The result.", "content": {"application/xml": {}}}},
)
async def download(request: Request, owner: Owner, job_id: str) -> Response:
    """Download a job's result."""
    state = state_of(request)
    job = await state.own_job(job_id, owner)
    if not job.status.finished:
        raise state.refusal(ErrorCode.NOT_READY, job)
    if job.status is not JobStatus.COMPLETE:
        line = "There is no result: the job has not been completed."
        raise ApiError(ErrorCode.NOT_READY, line)
    app = state.app_of(job)
    found = None if app is None else await asyncio.to_thread(app.download, job)
    if found is None:
        raise state.refusal(ErrorCode.EXPIRED, job)
    if request.method == "HEAD":
        found.file.close()
        return Response(media_type=found.media_type, headers=_headers(found))
    return StreamingResponse(
        _pieces(found.file), media_type=found.media_type, headers=_headers(found)
    )


def _headers(found: Download) -> dict[str, str]:
    return {
        "content-length": str(found.size),
        "content-disposition": attachment(found.filename),
        "content-security-policy": _SANDBOX,
        "x-content-type-options": "nosniff",
        "cache-control": "private, no-store",
    }


def attachment(filename: str) -> str:
    """Return a Content-Disposition that saves under `filename`, whatever letters it has."""
    plain = "".join(
        letter if " " <= letter <= "~" and letter not in '"\\%;' else "_" for letter in filename
    )
    encoded = quote(filename.encode("utf-8", "replace"), safe="")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    try:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
    finally:
        file.close()
