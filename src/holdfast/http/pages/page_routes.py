"""The pages' routes: rows, one job, and what can be done to it by a form."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from holdfast.errors import HoldfastError
from holdfast.http.admin import IsAdmin
from holdfast.http.api_errors import as_api_error
from holdfast.http.cookies import set_cookie
from holdfast.http.pages.bulk_routes import bulk_routes
from holdfast.http.pages.job_list import View, read_held, read_job_list, rows_of
from holdfast.http.pages.job_rows import without_actions
from holdfast.http.pages.notes import count_in, note_line
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


def page_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of all pages."""
    pages = _Pages(renderer)
    route_class = _page_route(renderer)
    router = APIRouter(include_in_schema=False, route_class=route_class)
    router.add_api_route("/", pages.front, methods=["GET", "HEAD"])
    router.add_api_route("/jobs/{job_id}", pages.job, methods=["GET"])
    router.add_api_route("/jobs/{job_id}/retry", pages.retry, methods=["POST"])
    router.add_api_route("/jobs/{job_id}/retry-now", pages.retry_now, methods=["POST"])
    router.add_api_route("/jobs/{job_id}/cancel", pages.cancel, methods=["POST"])
    router.add_api_route("/theme", pages.theme, methods=["POST"])
    router.routes.extend(bulk_routes(renderer, route_class).routes)
    return router


class _Pages:
    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._state = renderer.state
        self._engine = renderer.state.engine

    # -- looking -------------------------------------------------------------------------------

    async def front(
        self,
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
        if self._renderer.listed_kinds == ():
            return RedirectResponse(self._renderer.navigation("/")[0].path, 307)
        # Asked first: what happens while the rows are read comes over the stream.
        sequence = await self._engine.store.last_sequence()
        listing = await read_job_list(self._renderer, owner, View.of(status, cursor, q))
        templates = ("front.html", "job_list.html")
        line = note_line(self._renderer, note, count_in(done), count_in(left))
        return self._answer(request, templates, line, listing=listing, sequence=sequence)

    async def job(
        self, request: Request, owner: Owner, admin: IsAdmin, job_id: str, note: Text = None
    ) -> Response:
        """Show one job and its history; to operators any job, with the tracebacks of attempts."""
        sequence = await self._engine.store.last_sequence()
        find = self._state.any_job(job_id) if admin else self._state.own_job(job_id, owner)
        job = await find
        now = await self._engine.store.ping()
        events, attempts, held = await asyncio.gather(
            self._engine.events(job.id),
            self._engine.attempts(job.id),
            read_held(self._renderer, now),
        )
        (row,) = rows_of(self._renderer, [job], now, held)
        if job.owner != owner:
            row = without_actions(row)  # the forms are for its owner
        return self._answer(
            request,
            ("job.html", "job_body.html"),
            note_line(self._renderer, note),
            job=job,
            row=row,
            now=now,
            steps=steps_of(attempts, events, tracebacks=admin),
            lines=lines_of(events),
            held=[each for each in held if each.name == job.downstream],
            sequence=sequence,
        )

    def _answer(
        self, request: Request, templates: tuple[str, str], line: str, **values: Any
    ) -> Response:
        """Answer with the whole page; to htmx, with the part of it that changes."""
        whole, part = templates
        partial = is_partial(request)
        template = part if partial else whole
        answer = self._renderer.answer(request, template, note=line, **values)
        return saying(answer, line) if partial and line else answer

    # -- doing ---------------------------------------------------------------------------------

    async def retry(self, owner: Owner, job_id: str, back: Back) -> Response:
        """Put a failed job back in the queue."""

        async def move(job: Job) -> str:
            await self._engine.retry(job.id)
            return "retried"

        return await self._do(move, owner, job_id, back)

    async def retry_now(self, owner: Owner, job_id: str, back: Back) -> Response:
        """Begin the next attempt of a job that waits for it."""

        async def move(job: Job) -> str:
            return "paused" if (await self._engine.retry_now(job.id)).held else "expedited"

        return await self._do(move, owner, job_id, back)

    async def cancel(self, owner: Owner, job_id: str, back: Back) -> Response:
        """Cancel a job, or ask one that is running to stop."""

        async def move(job: Job) -> str:
            changed = await self._engine.cancel(job.id)
            return "cancelled" if changed.status is JobStatus.CANCELLED else "stopping"

        return await self._do(move, owner, job_id, back)

    async def _do(self, move: Move, owner: str, job_id: str, back: _Back) -> Response:
        job = await self._state.own_job(job_id, owner)
        try:
            note = await move(job)
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            # What the row shows by now says more than a page that refuses.
            note = "in-place" if isinstance(error, TwinInPlace) else str(error.code)
        return RedirectResponse(back.path(job, note), 303)

    async def theme(self, request: Request, theme: Field = "", back: Field = "") -> Response:
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


def _page_route(renderer: Renderer) -> type[APIRoute]:
    """Return a kind of route whose refusals are pages."""

    class PageRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handle_or_refuse(request: Request) -> Response:
                try:
                    return await handle(request)
                except HoldfastError as error:
                    return renderer.refuse(request, as_api_error(request, error))

            return handle_or_refuse

    return PageRoute
