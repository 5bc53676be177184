"""What the routes of one server share."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import Request, Response

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.http.errors import ApiError, forbidden
from holdfast.http.plugins import JobFacts, ServedApp
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.model import Job

if TYPE_CHECKING:
    from holdfast.http.admin import AdminDoor
    from holdfast.http.api.ops import PacedRun
    from holdfast.http.sessions import Sessions
    from holdfast.http.streams import Streams

_LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How the API is served. Times are seconds.

    Args:
        secret_key: signs the cookies.
        admin_token: opens the ops routes.
        secure_cookies: cookies travel over https only.
        writes_at_once: writes that a session may make in a burst.
        writes_per_second: how quickly it may go on after that.
        streams_at_once: live streams that a session may have open.
        stream_beat: between two signs of life on a stream.
        body_bytes: the largest body that a route takes which does not read it piece by piece.
        body_seconds: in which such a body must have come.
        ready: asked by `/readyz`; each returns None, or a line that says what is missing.
    """

    secret_key: str
    admin_token: str
    secure_cookies: bool = False
    writes_at_once: int = 600
    writes_per_second: float = 10.0
    streams_at_once: int = 20
    stream_beat: float = 15.0
    body_bytes: int = 1024 * 1024
    body_seconds: float = 30.0
    ready: tuple[Callable[[], str | None], ...] = ()


@dataclass(slots=True)
class Site:
    """An engine, its apps, and how they are served."""

    engine: StoreEngine
    apps: Mapping[str, ServedApp]
    settings: HttpSettings
    sessions: "Sessions"
    admin: "AdminDoor"
    streams: "Streams"
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is about to stop: streams end, and no more of a body is waited for."""
    paced_run: "PacedRun | None" = None
    """The requeue of dead letters that goes on, see `api.ops`."""
    refusal_page: Callable[[Request, ApiError], Response] | None = None
    """What refuses with a page, for browsers; None where there are no pages."""

    @property
    def clock(self) -> Clock:
        """The engine's clock."""
        return self.engine.clock

    def app_of(self, job: Job) -> ServedApp | None:
        """Return the app whose job it is."""
        return self.apps.get(job.kind.partition(".")[0])

    def facts(self, job: Job) -> JobFacts:
        """Return what its app knows of a job."""
        app = self.app_of(job)
        return JobFacts() if app is None else app.facts(job, self.clock.wall())

    async def own_job(self, job_id: str, owner: str) -> Job:
        """Return the job `job_id` of `owner`.

        Raises:
            ApiError: it is another's, or there is none; both look alike.
        """
        if not 0 < len(job_id) <= _LONGEST_ID or "\0" in job_id:
            raise forbidden()
        job = await self.engine.get(job_id)
        if job is None or job.owner is None or job.owner != owner:
            raise forbidden()
        return job


def site_of(request: Request) -> Site:
    """Return the site that serves `request`."""
    site = request.app.state.site
    assert isinstance(site, Site)
    return site


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse names of kinds that no job can have."""
    for kind in kinds:
        if not kind or len(kind) > _LONGEST_ID or "\0" in kind:
            raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such kind.")
