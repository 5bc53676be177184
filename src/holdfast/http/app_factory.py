"""Build the ASGI app: the engine's routes, the apps' routes, the pages and the middleware."""

import contextlib
from collections.abc import AsyncIterator, Iterable

from fastapi import FastAPI

from holdfast.http.admin import AdminAccess
from holdfast.http.admin import router as admin_router
from holdfast.http.api import (
    audit,
    bulk,
    dead_letters,
    event_stream,
    fleet,
    health,
    jobs,
    metrics,
    ops,
    ops_jobs,
    overview,
    periodic,
)
from holdfast.http.api import dlq as dlq_api
from holdfast.http.api import outbox as outbox_api
from holdfast.http.api_errors import add_error_handlers
from holdfast.http.callers import KeyMiddleware
from holdfast.http.dead_letter_runs import DeadLetterRuns
from holdfast.http.dlq_port import DlqSource
from holdfast.http.job_facts import describe_facts
from holdfast.http.pages import add_pages
from holdfast.http.pause_watch import PauseWatch
from holdfast.http.proxies import TrustedProxies
from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.security import BodyLimits, SecurityMiddleware
from holdfast.http.served_app import HttpSettings, ServedApp, ServerState
from holdfast.http.sessions import SessionMiddleware, Sessions
from holdfast.http.stream_limit import StreamLimit
from holdfast.http.write_limit import WriteLimit
from holdfast.jobs.declare.app import App
from holdfast.jobs.engine import StoreEngine
from holdfast.outbox import Outbox

STREAMED = "streamed"
"""A tag for routes that read their bodies piece by piece and count for themselves."""


def create_app(
    engine: StoreEngine,
    apps: Iterable[ServedApp | App],
    settings: HttpSettings,
    *,
    outbox: Outbox | None = None,
    dlq: DlqSource | None = None,
) -> FastAPI:
    """Return the ASGI app that serves `engine` and `apps`; `app.state.server` is what they share.

    The caller opens and closes the engine. With an `outbox` there are routes for its messages.
    `dlq` opens a dead-letter queue of the broker; without it those routes say that there is none.

    Raises:
        ValueError: a fact of an app has the name of a field that every job has.
    """
    served = [each if isinstance(each, ServedApp) else ServedApp(each) for each in apps]
    state = ServerState(
        engine=engine,
        apps={each.name: each for each in served},
        settings=settings,
        sessions=Sessions(settings.secret_key, engine.clock),
        admin=AdminAccess(
            settings.secret_key, settings.admin_token, engine.clock, settings.reader_token
        ),
        streams=StreamLimit(
            settings.streams_at_once, settings.streams_at_once * settings.sessions_per_address
        ),
        pauses=PauseWatch(engine),
        runs=DeadLetterRuns(engine),
        proxies=TrustedProxies(settings.trusted_proxies),
        outbox=outbox,
        dlq=dlq,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for each in served:
                await stack.enter_async_context(each.running(state))
            yield
            state.stopping.set()
            await state.runs.close()

    app = FastAPI(
        title="Holdfast",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=ERROR_ANSWERS,
        redirect_slashes=False,
    )
    app.state.server = state
    app.state.admin = state.admin
    app.state.local_access = settings.local_access
    app.state.errors = engine.registry.errors
    app.state.refusal_page = None
    add_error_handlers(app)
    modules = [
        health, metrics, bulk, jobs, event_stream, ops, dead_letters, overview, ops_jobs,
        fleet, periodic, audit, dlq_api,
    ]  # fmt: skip
    if outbox is not None:
        modules.append(outbox_api)
    for router in (*(each.router for each in modules), ops.public, admin_router):
        app.include_router(router)
    streamed = _include_apps(app, served, state)
    add_pages(app, state)
    describe_facts(app, [fact for each in served for fact in each.job_facts])
    # The last one added is the first to see a request: the session is known to the others.
    app.add_middleware(
        SecurityMiddleware,
        writes=WriteLimit(
            settings.writes_at_once,
            settings.writes_per_second,
            settings.sessions_per_address,
            engine.clock,
        ),
        proxies=state.proxies,
        limits=BodyLimits(
            settings.body_bytes,
            settings.body_seconds,
            streamed,
            state.stopping,
            engine.clock,
        ),
    )
    app.add_middleware(KeyMiddleware, keys=engine.keys, is_other_token=state.admin.is_token)
    app.add_middleware(
        SessionMiddleware,
        sessions=state.sessions,
        proxies=state.proxies,
        secure=settings.secure_cookies,
    )
    return app


def _include_apps(app: FastAPI, served: Iterable[ServedApp], state: ServerState) -> frozenset[str]:
    """Add the routes of the apps; return the paths of those that are `STREAMED`."""
    streamed: set[str] = set()
    for each in served:
        routes = each.routes(state)
        if routes is None:
            continue
        app.include_router(routes)
        streamed |= {
            route.path  # type: ignore[attr-defined]  # a route with tags has a path
            for route in routes.routes
            if STREAMED in (getattr(route, "tags", None) or ())
        }
    return frozenset(streamed)
