"""What pages of an app's own are rendered with."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from holdfast.http.pages.job_list import read_held, rows_of
from holdfast.http.pages.renderer import Renderer, is_partial, saying
from holdfast.http.pages.timeline import steps_of
from holdfast.http.rendered import RenderedJobs, Step
from holdfast.jobs.model import Job


def own_page_routes(renderer: Renderer) -> list[APIRouter]:
    """Return the routes of the apps that have pages of their own."""
    apps = renderer.state.apps.items()
    found = (app.pages(OwnPages(renderer, name)) for name, app in apps)
    return [routes for routes in found if routes is not None]


class OwnPages:
    """Implements `AppPages` for the app called `name`."""

    def __init__(self, renderer: Renderer, name: str) -> None:
        self._renderer = renderer
        self._engine = renderer.state.engine
        self._name = name

    def answer(
        self, request: Request, template: str, status: int = 200, *, part: str = "", **values: Any
    ) -> Response:
        """Answer with a template of the app's folder; to htmx, with the part that changes."""
        partial = bool(part) and is_partial(request)
        chosen = f"{self._name}/{part if partial else template}"
        values.setdefault("here", request.url.path)
        answer = self._renderer.answer(request, chosen, status, **values)
        note = str(values.get("note") or "")
        return saying(answer, note) if partial and note else answer

    async def sequence(self) -> int:
        """Return where the live stream begins."""
        return await self._engine.store.last_sequence()

    async def jobs(self, jobs: Sequence[Job]) -> RenderedJobs:
        """Return `jobs` as the front page shows them."""
        now = await self._engine.store.ping()
        held = await read_held(self._renderer, now) if jobs else []
        rows = rows_of(self._renderer, jobs, now, held)
        return RenderedJobs({row.id: row for row in rows}, now)

    async def steps(self, job: Job) -> list[Step]:
        """Return the attempts of `job` as its page shows them."""
        attempts = await self._engine.attempts(job.id)
        return steps_of(attempts, await self._engine.events(job.id))
