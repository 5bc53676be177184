"""An app as a server serves it, and the state that the routes of one server share.

A plain `App` is served as it is. `ServedApp` is for one that wants more; every method has a
default, so that it says only what is special about it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from fastapi import APIRouter, Request, Response

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.http.admin import AdminAccess
from holdfast.http.api_errors import ApiError
from holdfast.http.dead_letter_runs import DeadLetterRuns
from holdfast.http.dlq_port import DlqSource
from holdfast.http.intake_gate import DiskRoom, IntakeGate
from holdfast.http.pause_watch import PauseWatch
from holdfast.http.plugins import (
    Download,
    JobFact,
    JobFacts,
    MessageQueue,
    NavItem,
    PagePart,
    Sidecar,
)
from holdfast.http.proxies import TrustedProxies
from holdfast.http.rendered import RenderedJobs, Step
from holdfast.http.schemas import JobOut, MetaView
from holdfast.http.sessions import Sessions
from holdfast.http.stream_limit import StreamLimit
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.model import Job
from holdfast.outbox import Outbox

_LONGEST_ID = 200

MetricsSource = Callable[[], Awaitable[bytes]]
"""Returns all samples in the text format of Prometheus, version 0.0.4."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How the API is served. Times are seconds.

    Args:
        secret_key: signs the cookies.
        admin_token: opens the ops routes: one token, or `ann:TOKEN,ben:TOKEN`.
        reader_token: likewise, for those who may look and not change; None if there is none.
        secure_cookies: whether cookies travel over https only; None: those that are set over https.
        writes_at_once: writes that a session may make in a burst.
        writes_per_second: how many a second after that.
        streams_at_once: live streams that a session may have open.
        sessions_per_address: an address may write and stream as much as so many sessions, so that
            a client gains little by a new session for each request.
        stream_beat: between two keep-alive comments on a stream.
        body_bytes: the largest body of a route that is not streamed.
        body_seconds: in which such a body must have arrived.
        ready: asked by `/readyz`; each returns None, or a line that says what is missing.
        worker_elsewhere: jobs are run by workers of other processes: `/readyz` asks for one.
        local_access: requests from the server's own machine belong to the organisation "local";
            False behind a proxy on that machine which does not say that it passes requests on.
        trusted_proxies: addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto`
            are believed; None is the server's own machine.
        disk_room: where files are kept, and how much must be free there to take in more.
    """

    secret_key: str
    admin_token: str
    secure_cookies: bool | None = None
    writes_at_once: int = 600
    writes_per_second: float = 10.0
    streams_at_once: int = 20
    sessions_per_address: int = 20
    stream_beat: float = 15.0
    body_bytes: int = 1024 * 1024
    body_seconds: float = 30.0
    ready: tuple[Callable[[], str | None], ...] = ()
    local_access: bool = True
    worker_elsewhere: bool = False
    trusted_proxies: tuple[str, ...] | None = None
    disk_room: DiskRoom | None = None
    reader_token: str | None = None


class AppPages(Protocol):
    """Render the pages of one app's own: templates that extend `layout.html`."""

    def answer(
        self, request: Request, template: str, status: int = 200, *, part: str = "", **values: Any
    ) -> Response:
        """Answer with a template of the app's folder.

        Args:
            request: what is answered.
            template: the file's name, for a whole page.
            status: the HTTP status.
            part: the template of `<section id="board">` alone, for htmx when something changes.
            values: handed to the template; a `note` is shown for a moment, and a `sequence` opens
                the live stream.
        """
        ...

    async def sequence(self) -> int:
        """Return where the live stream begins: ask before reading what the page shows."""
        ...

    async def jobs(self, jobs: Sequence[Job]) -> RenderedJobs:
        """Return `jobs` as the front page shows them, for the macros of `parts.html`."""
        ...

    async def steps(self, job: Job) -> list[Step]:
        """Return the attempts of `job`, oldest first, for `timeline` of `parts.html`."""
        ...


class ServedApp:
    """An app and what it adds to a server.

    Args:
        app: declares its jobs.
    """

    job_facts: Sequence[JobFact] = ()
    """The facts that its jobs have; `facts` returns their values."""

    lines: Mapping[str, str] = MappingProxyType({})
    """Messages for its users in place of the library's, by error code."""

    navigation: Sequence[NavItem] = ()
    """The pages of its own that the navigation of all pages leads to.

    Its jobs stand there, and not on the front page, unless it also has a `page`.
    """

    folder: Path | None = None
    """Holds `templates` and `static` of the pages of its own; files are below `/static/APP/`."""

    message_jobs: Mapping[str, JobFunction[Any, Any] | str] = MappingProxyType({})
    """The jobs that take the messages of the outbox, by message type, where there is no broker."""

    message_queues: Sequence[MessageQueue] = ()
    """The queues that take the messages of the outbox, where there is a broker."""

    def __init__(self, app: App) -> None:
        self.app = app

    @property
    def name(self) -> str:
        """The app's name."""
        return self.app.name

    def routes(self, state: "ServerState") -> APIRouter | None:
        """Return the routes that it adds; they are asked for once, when the server is put together.

        Paths below `/api/` are in the OpenAPI document. `Owner` as a parameter's annotation hands
        a route the session's owner.
        """
        del state
        return None

    def page(self) -> PagePart | None:
        """Return what it adds to the front page."""
        return None

    def pages(self, pages: "AppPages") -> APIRouter | None:
        """Return the routes of pages of its own; `pages` renders the templates of `folder`."""
        del pages
        return None

    def running(self, state: "ServerState") -> AbstractAsyncContextManager[Any]:
        """Return what is open for as long as the server runs."""
        del state
        return nullcontext()

    def sidecars(self) -> Sequence[Sidecar]:
        """Return the processes that run beside the server."""
        return ()

    def facts(self, job: Job, now: float) -> JobFacts:
        """Return what is known of `job` at `now`, in epoch seconds.

        It is called for every row: at most ask whether a file is there.
        """
        del now
        return JobFacts(can_retry=job.can_retry)

    def history_meta(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Return the `meta` of an event or attempt as the API shows it."""
        return meta

    def download(self, job: Job) -> Download | None:
        """Open the result of a complete job; None where it is gone. Called in a thread."""
        del job
        return None


@dataclass(slots=True)
class ServerState:
    """What the routes of one server share: an engine, its apps, and how they are served."""

    engine: StoreEngine
    apps: Mapping[str, ServedApp]
    settings: HttpSettings
    sessions: Sessions
    admin: AdminAccess
    streams: StreamLimit
    pauses: PauseWatch
    runs: DeadLetterRuns
    proxies: TrustedProxies
    intake: IntakeGate
    """Asked by every route that takes in new work: `await state.intake.check()`."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is about to stop: streams end, and no more of a body is waited for."""
    outbox: Outbox | None = None
    """The engine's outbox, if it has one."""
    dlq: DlqSource | None = None
    """The dead-letter queues of the broker, if there is one."""
    metrics: MetricsSource | None = None
    """Returns the text that Prometheus reads; None: there is no `/metrics`."""

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

    def history_meta(self, job: Job) -> MetaView:
        """Return how the app of a job shows the `meta` of its events and attempts."""
        app = self.app_of(job)
        return dict if app is None else app.history_meta

    def has_key(self, downstream: str) -> bool:
        """Say whether the name of a downstream contains a key, made from a job's arguments."""
        return self.engine.registry.downstream_base(downstream) != downstream

    def without_keys(self, records: Iterable[DownstreamRecord]) -> list[DownstreamRecord]:
        """Return what every session may see: a key may say what another owner does."""
        return [record for record in records if not self.has_key(record.name)]

    def refusal(self, code: str, job: Job | None = None) -> ApiError:
        """Return the error `code` in the words of the job's app; without a job, of any app."""
        apps = self.apps.values() if job is None else [self.app_of(job)]
        lines = (app.lines[code] for app in apps if app is not None and code in app.lines)
        return ApiError(code, next(lines, ""))

    def job_out(self, job: Job) -> JobOut:
        """Return a job as its owner sees it in JSON."""
        return JobOut.of(job, self.facts(job))

    async def own_job(self, job_id: str, owner: str) -> Job:
        """Return the job `job_id` of `owner`.

        Raises:
            ApiError: it is another's, or there is none; both look alike.
        """
        job = await self.any_job(job_id)
        if job.owner is None or job.owner != owner:
            raise self.refusal(ErrorCode.FORBIDDEN)
        return job

    async def any_job(self, job_id: str) -> Job:
        """Return the job `job_id` of any owner: for operators.

        Raises:
            ApiError: there is none.
        """
        if not 0 < len(job_id) <= _LONGEST_ID or "\0" in job_id:
            raise self.refusal(ErrorCode.FORBIDDEN)
        job = await self.engine.get(job_id)
        if job is None:
            raise self.refusal(ErrorCode.FORBIDDEN)
        return job


def state_of(request: Request) -> ServerState:
    """Return what the routes of the server share that `request` came to."""
    state = request.app.state.server
    assert isinstance(state, ServerState)
    return state


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse names of kinds that no job can have."""
    for kind in kinds:
        if not kind or len(kind) > _LONGEST_ID or "\0" in kind:
            raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such kind.")
