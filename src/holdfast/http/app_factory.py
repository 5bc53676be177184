"""Build the ASGI app: the engine's routes, the apps' routes, the pages and the middleware."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterable

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.http.admin import HOME
from holdfast.http.admin import router as admin_router
from holdfast.http.api import (
    audit,
    bulk,
    dead_letters,
    event_stream,
    fleet,
    health,
    intake,
    jobs,
    ops,
    ops_jobs,
    overview,
    owner_limits,
    owners,
    periodic,
    webhooks,
)
from holdfast.http.api import dlq as dlq_api
from holdfast.http.api import metrics as metrics_api
from holdfast.http.api import outbox as outbox_api
from holdfast.http.api_errors import add_error_handlers
from holdfast.http.assembly import add_middleware, new_state, use_state
from holdfast.http.dlq_port import DlqSource
from holdfast.http.job_facts import describe_facts
from holdfast.http.ops.dashboard import dashboard_app
from holdfast.http.ops.frame import Frame
from holdfast.http.pages import add_pages
from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.served_app import HttpSettings, MetricsSource, ServedApp, ServerState
from holdfast.jobs.declare.app import App
from holdfast.jobs.engine import StoreEngine
from holdfast.outbox import Outbox

STREAMED = "streamed"
"""A tag for routes that read their bodies piece by piece and count for themselves. Their paths have
no parameters."""


def create_app(
    engine: StoreEngine,
    apps: Iterable[ServedApp | App],
    settings: HttpSettings,
    *,
    outbox: Outbox | None = None,
    dlq: DlqSource | None = None,
    metrics: MetricsSource | None = None,
) -> FastAPI:
    """Return the ASGI app that serves `engine` and `apps`; `app.state.server` is what they share.

    The caller opens and closes the engine. With an `outbox` there are routes for its messages.
    `dlq` opens a dead-letter queue of the broker; without it those routes say that there is none.
    `metrics` answers `/metrics`, such as `StoreMetrics(engine).exposition` of
    `holdfast.telemetry.prometheus`; without it there is no such route.

    Raises:
        ValueError: a fact of an app has the name of a field that every job has, a route that is
            `STREAMED` has parameters in its path, or the installation lacks files of the dashboard.
    """
    served = [each if isinstance(each, ServedApp) else ServedApp(each) for each in apps]
    state = new_state(engine, served, settings, outbox=outbox, dlq=dlq, metrics=metrics)

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
    use_state(app, state)
    add_error_handlers(app)
    _add_engine_routes(app, state)
    streamed = _include_apps(app, served, state)
    add_pages(app, state)
    describe_facts(app, [fact for each in served for fact in each.job_facts])
    _mount_dashboard(app, state)
    add_middleware(app, state, streamed)
    return app


def _add_engine_routes(app: FastAPI, state: ServerState) -> None:
    modules = [
        health, bulk, jobs, event_stream, ops, dead_letters, overview, ops_jobs, owner_limits,
        owners, fleet, intake, periodic, audit, dlq_api, webhooks,
    ]  # fmt: skip
    if state.outbox is not None:
        modules.append(outbox_api)
    if state.metrics is not None:
        modules.append(metrics_api)
    routers = [each.router for each in modules]
    for router in (*routers, dead_letters.overall, ops.public, admin_router):
        # FastAPI builds every route of an included router once more, at the first request.
        app.router.routes.extend(router.routes)


def _mount_dashboard(app: FastAPI, state: ServerState) -> None:
    @app.get(HOME, include_in_schema=False)
    async def enter_dashboard() -> RedirectResponse:
        return RedirectResponse(f"{HOME}/", 303)

    # Now, and not with the routes: an installation that lacks files of it fails when it starts.
    frame = Frame(state)
    app.mount(HOME, _BuiltAtFirstRequest(lambda: dashboard_app(frame)))


class _BuiltAtFirstRequest:
    """An ASGI app that is built when it is first asked for.

    FastAPI takes as long for the routes of the dashboard as for all others, and most servers are
    rarely asked for it.
    """

    def __init__(self, build: Callable[[], ASGIApp]) -> None:
        self._app = functools.cache(build)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app()(scope, receive, send)


def _include_apps(
    app: FastAPI, served: Iterable[ServedApp], state: ServerState
) -> frozenset[tuple[str, str]]:
    """Add the routes of the apps; return the methods and paths of those that are `STREAMED`."""
    streamed: set[tuple[str, str]] = set()
    for each in served:
        routes = each.routes(state)
        if routes is None:
            continue
        app.include_router(routes)
        # Also those of routers that it includes.
        for route in iter_route_contexts(routes.routes):
            if route.path is not None and STREAMED in (getattr(route, "tags", None) or ()):
                streamed |= {(method, route.path) for method in route.methods or ()}
    _check_streamed(streamed)
    return frozenset(streamed)


def _check_streamed(streamed: Iterable[tuple[str, str]]) -> None:
    for method, path in sorted(streamed):
        # The limits of a body are chosen before routing, by the path as it is.
        if "{" in path:
            raise ValueError(
                f"the route {method} {path} is tagged {STREAMED!r}, so its path may have no "
                "parameters: take them from the query or from headers"
            )
