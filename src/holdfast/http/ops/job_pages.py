"""Jobs of all owners: the list with its filters, one job with its history, and what can be done."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError, refusing_cursors
from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Change, Confirmation, Confirmed, Frame
from holdfast.http.ops.list_filter import SPAN_WORDS, ListFilter
from holdfast.http.ops.redaction import shown_json
from holdfast.http.ops_schemas import JobMove
from holdfast.http.pages.job_rows import row_of, word_of
from holdfast.http.pages.timeline import lines_of, steps_of
from holdfast.http.rendered import RenderedRow
from holdfast.http.served_app import ServerState
from holdfast.jobs.model import Job, JobStatus
from holdfast.jobs.query_port import SEARCH_WINDOW

_PAGE = 50
_NO_JOB = "There is no job with this id. It may have been deleted."


@dataclass(frozen=True, slots=True)
class OpsRow:
    """A job of any owner, as a row."""

    job: Job
    row: RenderedRow


_DONE = {
    JobMove.RETRY: "retried",
    JobMove.RETRY_NOW: "expedited",
    JobMove.CANCEL: "cancelled",
}


async def rows_of(state: ServerState, jobs: Iterable[Job], now: float) -> list[OpsRow]:
    """Return `jobs` as rows; those of a held downstream say so."""
    held = {
        record.name for record in await state.engine.downstreams.troubled() if record.holds_at(now)
    }
    rows = []
    for job in jobs:
        app = state.app_of(job)
        declared = () if app is None else app.job_facts
        paused = job.downstream in held
        row = row_of(job, state.facts(job), now, words={}, declared=declared, paused=paused)
        rows.append(OpsRow(job, row))
    return rows


def add_job_pages(router: APIRouter, frame: Frame) -> None:
    """Add the pages about jobs, and what can be done to one."""
    _add_list(router, frame)
    _add_job(router, frame)


def _add_list(router: APIRouter, frame: Frame) -> None:
    engine = frame.engine

    @router.get("/jobs")
    async def show_jobs(request: Request) -> Response:
        search = ListFilter.of(request.query_params)
        now = await engine.store.ping()
        with refusing_cursors():
            found = await engine.search(
                search.as_filter(now), cursor=search.cursor or None, limit=_PAGE
            )
        older = search.path("/jobs", cursor=found.next_cursor) if found.next_cursor else ""
        return await frame.page(
            request,
            "jobs.html",
            now=now,
            search=search,
            spans=SPAN_WORDS,
            statuses={str(status): word_of(status) for status in JobStatus},
            kinds=sorted(engine.registry.kinds),
            rows=await rows_of(frame.state, found.jobs, now),
            older=older,
            window=SEARCH_WINDOW,
            searched_from=None if found.complete else found.searched_from,
            newest=search.path("/jobs") if search.cursor else "",
        )


def _add_job(router: APIRouter, frame: Frame) -> None:
    engine = frame.engine

    async def found(job_id: str) -> Job:
        try:
            return await frame.state.any_job(job_id)
        except ApiError:
            raise ApiError(ErrorCode.FORBIDDEN, _NO_JOB) from None

    @router.get("/jobs/{job_id}")
    async def show_job(request: Request, job_id: str) -> Response:
        job = await found(job_id)
        now = await engine.store.ping()
        events, attempts = await asyncio.gather(engine.events(job.id), engine.attempts(job.id))
        (shown,) = await rows_of(frame.state, [job], now)
        return await frame.page(
            request,
            "job.html",
            now=now,
            job=job,
            row=shown.row,
            steps=steps_of(attempts, events, tracebacks=True),
            lines=lines_of(events),
            arguments=shown_json(job.arguments),
            result=shown_json(job.result),
            dead_letter="" if job.dead_letter is None else str(job.dead_letter).replace("_", " "),
        )

    @router.post("/jobs/{job_id}/{move}", dependencies=FULL_ACCESS)
    async def change_job(
        request: Request, job_id: str, move: JobMove, confirmed: Confirmed = ""
    ) -> Response:
        job = await found(job_id)
        back = f"/jobs/{quote(job.id, safe='')}"
        if move is JobMove.CANCEL and not confirmed:
            return frame.confirm(
                request,
                Confirmation(
                    title="Cancel this job?",
                    words=f"{job.kind} {job.id} is not finished. A running attempt is asked to "
                    "stop; a cancelled job is not tried again.",
                    action=f"{back}/cancel",
                    label="Cancel the job",
                    back=back,
                ),
            )
        act = move.action_of(engine)
        change = Change(f"jobs.{move}", job.id, back, _DONE[move])
        return await frame.do(request, act(job.id), change)
