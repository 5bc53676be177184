"""What is done to many of an owner's jobs at once: select, retry, remove, download."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

from fastapi.responses import Response, StreamingResponse

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.http.api_errors import ApiError
from holdfast.http.archive import zip_of
from holdfast.http.plugins import Download
from holdfast.http.served_app import ServerState
from holdfast.jobs.exceptions import InvalidState, UnknownJob, WaitTimeout
from holdfast.jobs.model import Job, JobStatus
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.jobs.views import JobFilter

MOST = 900
"""Jobs that one request retries or removes at most. A form has at most 1000 fields, and the
question before a removal sends one for each."""
_BATCH = 200
_STOP_SECONDS = 5.0
"""How long a removal waits for running jobs to stop."""
_ZIP_HEADERS = {
    "content-disposition": 'attachment; filename="results.zip"',
    "x-content-type-options": "nosniff",
    "cache-control": "private, no-store",
}
_NOTHING_READY = "There is nothing to download: none of these is complete."
_STOPPING = "It is still being stopped; remove it again in a moment."


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of an owner's jobs: those of `ids`; without any, all that match every other field.

    Args:
        ids: jobs by their ids.
        name: a part of the name that pages show, in upper or lower case.
        statuses: jobs in one of these.
        kinds: jobs of one of these.
        created_to: jobs created before then, in epoch seconds.
    """

    ids: tuple[str, ...] = ()
    name: str = ""
    statuses: tuple[JobStatus, ...] = ()
    kinds: tuple[str, ...] = ()
    created_to: float | None = None


@dataclass(slots=True)
class BulkResult:
    """What was done: the ids of the jobs that changed, and why others did not, by id."""

    done: list[str] = field(default_factory=list)
    refused: dict[str, HoldfastError] = field(default_factory=dict)


def has_name(state: ServerState, job: Job, part: str) -> bool:
    """Say whether `part` stands in the name that pages show, in upper or lower case."""
    return not part or part.casefold() in (state.facts(job).title or job.kind).casefold()


async def selected(
    state: ServerState, owner: str, selection: Selection, only: JobStatus | None = None
) -> AsyncIterator[Job]:
    """Yield the jobs of `owner` in `selection`, newest first; with `only`, those in that status.

    Ids of jobs that are another's, or not there, are skipped.
    """
    if selection.ids:
        for job_id in dict.fromkeys(selection.ids):
            found = await state.engine.get(job_id)
            if found is not None and found.owner == owner and only in (None, found.status):
                yield found
        return
    if only is not None and selection.statuses and only not in selection.statuses:
        return
    where = JobFilter(
        owner=owner,
        statuses=selection.statuses if only is None else (only,),
        kinds=selection.kinds,
        created_to=selection.created_to,
    )
    cursor: str | None = None
    while True:
        page = await state.engine.list(where, cursor=cursor, limit=_BATCH)
        for job in page.jobs:
            if has_name(state, job, selection.name):
                yield job
        cursor = page.next_cursor
        if cursor is None:
            return


async def first_of(jobs: AsyncIterator[Job]) -> list[Job]:
    """Return as many of `jobs` as one request may change."""
    found: list[Job] = []
    async for job in jobs:
        found.append(job)
        if len(found) == MOST:
            break
    return found


async def retry_all(state: ServerState, jobs: Iterable[Job]) -> BulkResult:
    """Requeue failed jobs; one that is refused does not keep the others."""
    result = BulkResult()
    for job in jobs:
        try:
            await state.engine.retry(job.id)
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            result.refused[job.id] = error
        else:
            result.done.append(job.id)
    return result


async def remove_all(state: ServerState, jobs: Sequence[Job]) -> BulkResult:
    """Delete jobs and their files; those that are not finished are cancelled first.

    A job that has not stopped after a few seconds stays, and is refused.
    """
    unfinished = [job for job in jobs if not job.status.finished]
    await asyncio.gather(*(_stop(state, job) for job in unfinished))
    removed = set(await state.engine.delete(jobs))
    result = BulkResult()
    for job in jobs:
        if job.id in removed or await state.engine.get(job.id) is None:
            result.done.append(job.id)  # by this request, or by another one meanwhile
        else:
            result.refused[job.id] = ApiError(ErrorCode.INVALID_STATE, _STOPPING)
    return result


async def _stop(state: ServerState, job: Job) -> None:
    """Cancel `job` and wait until it has ended, but not for long."""
    try:
        await state.engine.cancel(job.id)
        await state.engine.wait(job.id, timeout=_STOP_SECONDS)
    except (InvalidState, UnknownJob, WaitTimeout):
        # It finished by itself, was removed meanwhile, or still runs: the deletion finds out.
        return


async def zip_answer(state: ServerState, owner: str, selection: Selection) -> Response:
    """Answer with the results of the complete jobs in `selection`, in one ZIP file.

    Raises:
        ApiError: there is none.
    """
    found = _downloads(state, selected(state, owner, selection, JobStatus.COMPLETE))
    head = await anext(found, None)
    if head is None:
        raise ApiError(ErrorCode.NOT_READY, _NOTHING_READY)
    return StreamingResponse(
        zip_of(_with_head(head, found)), media_type="application/zip", headers=_ZIP_HEADERS
    )


async def _downloads(state: ServerState, jobs: AsyncIterator[Job]) -> AsyncIterator[Download]:
    """Yield the results of complete jobs, each open; one whose result is gone is skipped."""
    async for job in jobs:
        app = state.app_of(job)
        found = None if app is None else await asyncio.to_thread(app.download, job)
        if found is not None:
            yield found


async def _with_head(head: Download, rest: AsyncIterator[Download]) -> AsyncIterator[Download]:
    yield head
    async for each in rest:
        yield each
