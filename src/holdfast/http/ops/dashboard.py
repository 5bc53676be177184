"""The dashboard as an ASGI app: below `create_app`, or in an app of the user's own."""

import secrets

from fastapi import APIRouter, Depends, FastAPI
from starlette.types import Receive, Scope, Send

from holdfast.http.api_errors import add_error_handlers
from holdfast.http.assembly import add_middleware, new_state, use_state
from holdfast.http.ops.access import LoginNeeded, require_reader
from holdfast.http.ops.audit_pages import add_audit_pages
from holdfast.http.ops.dead_letter_pages import add_dead_letter_pages
from holdfast.http.ops.downstream_pages import add_downstream_pages
from holdfast.http.ops.fleet_pages import add_fleet_pages
from holdfast.http.ops.frame import Frame
from holdfast.http.ops.intake_pages import add_intake_pages
from holdfast.http.ops.job_pages import add_job_pages
from holdfast.http.ops.live_hints import add_hint_stream
from holdfast.http.ops.login_pages import add_login_pages, ask_for_login
from holdfast.http.ops.outbox_pages import add_outbox_pages
from holdfast.http.ops.overview_pages import add_overview_pages
from holdfast.http.ops.owner_pages import add_owner_pages
from holdfast.http.ops.webhook_pages import add_webhook_pages
from holdfast.http.served_app import HttpSettings, ServedApp
from holdfast.jobs.engine import StoreEngine
from holdfast.outbox import Outbox
from holdfast.settings import check_tokens

_LONGEST_STREAM = 20.0
"""Seconds that a live stream lasts in an app of the user's own.

Such an app does not say when it is about to stop, and a server waits for its open answers then.
"""


class _Dashboard(FastAPI):
    """An app that leaves the scope of the app around it, and the state of its request, alone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = {**scope, "state": dict(scope.get("state", {}))}
        await super().__call__(own, receive, send)


def dashboard_app(frame: Frame, *, longest_stream: float | None = None) -> FastAPI:
    """Return the dashboard of `frame`, to be mounted behind the middleware of `create_app`.

    `longest_stream` is the most seconds that a live stream is kept open; None sets no limit.
    """
    state = frame.state
    app = _Dashboard(
        title="Holdfast operations", openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    use_state(app, state)
    app.state.refusal_page = frame.refuse
    add_error_handlers(app)
    app.add_exception_handler(LoginNeeded, ask_for_login)
    add_login_pages(app.router, frame)
    app.include_router(frame.assets.routes())
    pages = APIRouter(dependencies=[Depends(require_reader)])
    for add_pages in (
        add_overview_pages,
        add_job_pages,
        add_dead_letter_pages,
        add_downstream_pages,
        add_fleet_pages,
        add_webhook_pages,
        add_intake_pages,
        add_owner_pages,
        add_audit_pages,
    ):
        add_pages(pages, frame)
    add_hint_stream(pages, frame, longest_stream)
    if state.outbox is not None:
        add_outbox_pages(pages, frame, state.outbox)
    app.include_router(pages)
    return app


def ops_dashboard(
    engine: StoreEngine,
    *,
    admin_token: str,
    reader_token: str | None = None,
    secret_key: str | None = None,
) -> FastAPI:
    """Return the dashboard, to be mounted in a FastAPI or Starlette app:

        app.mount("/ops", ops_dashboard(engine, admin_token=...))

    The app opens and closes the engine, in its lifespan.

    Args:
        engine: what the dashboard shows.
        admin_token: what operators log in with: one token, or `ann:TOKEN,ben:TOKEN`.
        reader_token: likewise, for operators who may look and not change; None if there is none.
        secret_key: signs the cookie of the login. By default a random one: then each start, and
            each process of several, needs a login of its own.

    Raises:
        ValueError: a token has fewer than 16 characters, or is not written as above.
    """
    check_tokens(admin_token, "admin_token")
    if reader_token:
        check_tokens(reader_token, "reader_token")
    settings = HttpSettings(
        secret_key or secrets.token_urlsafe(32), admin_token, reader_token=reader_token
    )
    outbox = getattr(engine, "outbox", None)
    state = new_state(
        engine,
        [ServedApp(app) for app in engine.registry.apps],
        settings,
        outbox=outbox if isinstance(outbox, Outbox) else None,
    )
    app = dashboard_app(Frame(state), longest_stream=_LONGEST_STREAM)
    # A header `Authorization` is meant for the user's app, or for a proxy in front of it.
    add_middleware(app, state, frozenset(), api_keys=False)
    return app
