"""The forms that act on many rows, and the page that asks before anything is removed."""

import math
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import RedirectResponse

from holdfast.http import bulk
from holdfast.http.api_errors import ApiError
from holdfast.http.pages.job_list import FILTERS, View, read_held, rows_of
from holdfast.http.pages.page_route import PageRoute, Pages
from holdfast.http.pages.renderer import Renderer
from holdfast.http.sessions import Owner
from holdfast.jobs.model import Job, JobStatus

_SHOWN = 10
"""Names that the question before a removal lists; the rest is counted."""

Field = Annotated[str, Form()]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a form's boxes select, and the view that it stands in.

    `until` is when the page was rendered, in epoch seconds: what is newer was not in sight when all
    were selected.
    """

    view: View
    ids: tuple[str, ...]
    every: bool
    until: float | None

    def selection(self, kinds: tuple[str, ...]) -> bulk.Selection:
        """Return the selected jobs; without any, those of the view."""
        return bulk.Selection(
            ids=() if self.every and self.until is not None else self.ids,
            name=self.view.text,
            statuses=FILTERS[self.view.status],
            kinds=kinds,
            created_to=self.until if self.every else None,
        )


def _chosen(
    ids: Annotated[list[str] | None, Form(alias="id")] = None,
    every: Annotated[str, Form(alias="all")] = "",
    status: Field = "",
    q: Field = "",
    cursor: Field = "",
    until: Field = "",
) -> _Chosen:
    view = View.of(status, cursor, q)
    return _Chosen(view, tuple(ids or ()), bool(every), _moment(until))


def _moment(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    # NaN would mean "no limit" to a store.
    return moment if math.isfinite(moment) else None


Chosen = Annotated[_Chosen, Depends(_chosen)]


router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.post("/bulk/download")
async def download(pages: Pages, owner: Owner, chosen: Chosen) -> Response:
    """Download the selected results, or without a selection all of the view."""
    try:
        return await bulk.zip_answer(pages.state, owner, _selection(pages, chosen))
    except ApiError:
        return RedirectResponse(chosen.view.path(note="nothing-ready"), 303)


@router.post("/bulk/retry")
async def retry(pages: Pages, owner: Owner, chosen: Chosen) -> Response:
    """Requeue the selected failed jobs, or without a selection all of the view."""
    failed = bulk.selected(pages.state, owner, _selection(pages, chosen), JobStatus.FAILED)
    result = await bulk.retry_all(pages.state, await bulk.first_of(failed))
    return _done("retried-many", chosen.view, result)


@router.post("/bulk/remove")
async def remove(
    pages: Pages, request: Request, owner: Owner, chosen: Chosen, confirmed: Field = ""
) -> Response:
    """Remove the selected jobs; a form that was not confirmed is answered by the question."""
    # Without the time of the page, "all" could include jobs that its user has not seen.
    if not chosen.ids and (not chosen.every or chosen.until is None):
        return RedirectResponse(chosen.view.path(note="nothing-selected"), 303)
    jobs = await bulk.first_of(bulk.selected(pages.state, owner, _selection(pages, chosen)))
    if not confirmed:
        return await _ask(pages, request, jobs, chosen.view, "/bulk/remove")
    return _done("removed-many", chosen.view, await bulk.remove_all(pages.state, jobs))


@router.get("/jobs/{job_id}/remove")
async def ask_to_remove(
    pages: Pages, request: Request, owner: Owner, job_id: str, status: str = "", q: str = ""
) -> Response:
    """Ask whether one job is to be removed."""
    job = await pages.state.own_job(job_id, owner)
    action = f"/jobs/{quote(job.id, safe='')}/remove"
    return await _ask(pages, request, [job], View.of(status, None, q), action)


@router.post("/jobs/{job_id}/remove")
async def remove_one(
    pages: Pages, owner: Owner, job_id: str, status: Field = "", q: Field = "", cursor: Field = ""
) -> Response:
    """Remove one job."""
    job = await pages.state.own_job(job_id, owner)
    result = await bulk.remove_all(pages.state, [job])
    return _done("removed-many", View.of(status, cursor, q), result)


def _selection(pages: Renderer, chosen: _Chosen) -> bulk.Selection:
    return chosen.selection(pages.listed_kinds or ())


async def _ask(
    pages: Renderer, request: Request, jobs: list[Job], view: View, action: str
) -> Response:
    now = await pages.state.engine.store.ping()
    rows = rows_of(pages, jobs[:_SHOWN], now, await read_held(pages, now))
    values: dict[str, Any] = {
        "action": action,
        "ids": [job.id for job in jobs],
        "rows": rows,
        "running": sum(not job.status.finished for job in jobs),
        "view": view,
    }
    return pages.answer(request, "remove.html", **values)


def _done(note: str, view: View, result: bulk.BulkResult) -> Response:
    counts = {"done": str(len(result.done)), "left": str(len(result.refused))}
    return RedirectResponse(view.path(note=note, **counts), 303)
