"""The pages' routes: rows, one job, and what can be done to it by a form."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from holdfast.errors import HoldfastError
from holdfast.http.admin import IsAdmin
from holdfast.http.cookies import set_cookie
from holdfast.http.pages.job_list import View, read_held, read_job_list, rows_of
from holdfast.http.pages.job_rows import without_actions
from holdfast.http.pages.notes import count_in, note_line
from holdfast.http.pages.page_route import PageRoute, Pages, renderer_of
from holdfast.http.pages.renderer import THEME_COOKIE, THEMES, Renderer, is_partial, saying
from holdfast.http.pages.timeline import lines_of, steps_of
from holdfast.http.sessions import Owner
from holdfast.jobs.exceptions import TwinInPlace
from holdfast.jobs.model import Job, JobStatus
from holdfast.jobs.store_port import StoreUnavailable

_YEAR = 365 * 86_400
_OWN_PATH = re.compile(r"(/[\w%~-][\w%.~-]*)+", re.ASCII)
"""A path of this server; never one that a browser takes for another host's."""
Text = Annotated[str | None, Query()]
Field = Annotated[str, Form()]
Move = Callable[[Job], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _Back:
    """The page that a form was on."""

    page: str
    view: View

    def path(self, job: Job, note: str) -> str:
        if self.page == "job":
            return f"/jobs/{quote(job.id, safe='')}?note={note}"
        return self.view.path(note=note)


def _back(page: Field = "", status: Field = "", cursor: Field = "", q: Field = "") -> _Back:
    return _Back(page, View.of(status, cursor, q))


Back = Annotated[_Back, Depends(_back)]


router = APIRouter(include_in_schema=False, route_class=PageRoute)

# -- looking -------------------------------------------------------------------------------


@router.api_route("/", methods=["GET", "HEAD"])
async def front(
    request: Request,
    owner: Owner,
    status: Text = None,
    cursor: Text = None,
    q: Text = None,
    note: Text = None,
    done: Text = None,
    left: Text = None,
) -> Response:
    """Show the rows; to htmx, only what changes."""
    pages = renderer_of(request)
    if pages.listed_kinds == ():
        return RedirectResponse(pages.navigation("/")[0].path, 307)
    # Asked first: what happens while the rows are read comes over the stream.
    sequence = await pages.state.engine.store.last_sequence()
    listing = await read_job_list(pages, owner, View.of(status, cursor, q))
    templates = ("front.html", "job_list.html")
    line = note_line(pages, note, count_in(done), count_in(left))
    return _answer(pages, request, templates, line, listing=listing, sequence=sequence)


@router.get("/jobs/{job_id}")
async def job(
    pages: Pages, request: Request, owner: Owner, admin: IsAdmin, job_id: str, note: Text = None
) -> Response:
    """Show one job and its history; to operators any job, with the tracebacks of attempts."""
    sequence = await pages.state.engine.store.last_sequence()
    find = pages.state.any_job(job_id) if admin else pages.state.own_job(job_id, owner)
    job = await find
    now = await pages.state.engine.store.ping()
    events, attempts, held = await asyncio.gather(
        pages.state.engine.events(job.id),
        pages.state.engine.attempts(job.id),
        read_held(pages, now),
    )
    (row,) = rows_of(pages, [job], now, held)
    if job.owner != owner:
        row = without_actions(row)  # the forms are for its owner
    return _answer(
        pages,
        request,
        ("job.html", "job_body.html"),
        note_line(pages, note),
        job=job,
        row=row,
        now=now,
        steps=steps_of(attempts, events, tracebacks=admin),
        lines=lines_of(events),
        held=[each for each in held if each.name == job.downstream],
        sequence=sequence,
    )


def _answer(
    pages: Renderer, request: Request, templates: tuple[str, str], line: str, **values: Any
) -> Response:
    """Answer with the whole page; to htmx, with the part of it that changes."""
    whole, part = templates
    partial = is_partial(request)
    template = part if partial else whole
    answer = pages.answer(request, template, note=line, **values)
    return saying(answer, line) if partial and line else answer


# -- doing ---------------------------------------------------------------------------------


@router.post("/jobs/{job_id}/retry")
async def retry(pages: Pages, owner: Owner, job_id: str, back: Back) -> Response:
    """Put a failed job back in the queue."""

    async def move(job: Job) -> str:
        await pages.state.engine.retry(job.id)
        return "retried"

    return await _do(pages, move, owner, job_id, back)


@router.post("/jobs/{job_id}/retry-now")
async def retry_now(pages: Pages, owner: Owner, job_id: str, back: Back) -> Response:
    """Begin the next attempt of a job that waits for it."""

    async def move(job: Job) -> str:
        return "paused" if (await pages.state.engine.retry_now(job.id)).held else "expedited"

    return await _do(pages, move, owner, job_id, back)


@router.post("/jobs/{job_id}/cancel")
async def cancel(pages: Pages, owner: Owner, job_id: str, back: Back) -> Response:
    """Cancel a job, or ask one that is running to stop."""

    async def move(job: Job) -> str:
        changed = await pages.state.engine.cancel(job.id)
        return "cancelled" if changed.status is JobStatus.CANCELLED else "stopping"

    return await _do(pages, move, owner, job_id, back)


async def _do(pages: Renderer, move: Move, owner: str, job_id: str, back: _Back) -> Response:
    job = await pages.state.own_job(job_id, owner)
    try:
        note = await move(job)
    except StoreUnavailable:
        raise
    except HoldfastError as error:
        # What the row shows by now says more than a page that refuses.
        note = "in-place" if isinstance(error, TwinInPlace) else str(error.code)
    return RedirectResponse(back.path(job, note), 303)


@router.post("/theme")
async def theme(request: Request, theme: Field = "", back: Field = "") -> Response:
    """Remember whether pages are light or dark, and go back to the page it was asked on."""
    headers = {"set-cookie": theme_cookie(request, theme)}
    return RedirectResponse(back if is_own_path(back) else "/", 303, headers)


def theme_cookie(request: Request, theme: str) -> str:
    """Return the header that remembers whether pages are light or dark."""
    chosen = theme if theme in THEMES else THEMES[0]
    secure = request.state.secure_cookies
    # Pages change it by themselves where scripts run, so it is not kept from them.
    return set_cookie(THEME_COOKIE, chosen, _YEAR, secure=secure).replace("; HttpOnly", "")


def is_own_path(path: str) -> bool:
    """Say whether `path` is one of this server, and cannot lead to another host."""
    return _OWN_PATH.fullmatch(path) is not None
