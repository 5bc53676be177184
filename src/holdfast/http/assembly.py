"""What every server of ours is made of: the shared state, and the middleware around its routes."""

from collections.abc import Iterable

from fastapi import FastAPI

from holdfast.http.admin import AdminAccess
from holdfast.http.body_limits import BodyLimits
from holdfast.http.callers import KeyMiddleware
from holdfast.http.dead_letter_runs import DeadLetterRuns
from holdfast.http.dlq_port import DlqSource
from holdfast.http.intake_gate import IntakeGate
from holdfast.http.pause_watch import PauseWatch
from holdfast.http.proxies import TrustedProxies
from holdfast.http.security import SecurityMiddleware
from holdfast.http.served_app import HttpSettings, MetricsSource, ServedApp, ServerState
from holdfast.http.sessions import SessionMiddleware, Sessions
from holdfast.http.stream_limit import StreamLimit
from holdfast.http.write_limit import WriteLimit
from holdfast.jobs.engine import StoreEngine
from holdfast.outbox import Outbox


def new_state(
    engine: StoreEngine,
    served: Iterable[ServedApp],
    settings: HttpSettings,
    *,
    outbox: Outbox | None,
    dlq: DlqSource | None = None,
    metrics: MetricsSource | None = None,
) -> ServerState:
    """Return what the routes of one server share."""
    return ServerState(
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
        proxies=TrustedProxies(settings.trusted_proxies),
        runs=DeadLetterRuns(engine),
        intake=IntakeGate(engine, settings.disk_room),
        outbox=outbox,
        dlq=dlq,
        metrics=metrics,
    )


def use_state(app: FastAPI, state: ServerState) -> None:
    """Let the routes of `app` find `state`."""
    app.state.server = state
    app.state.admin = state.admin
    app.state.local_access = state.settings.local_access
    app.state.errors = state.engine.registry.errors
    app.state.refusal_page = None


def add_middleware(
    app: FastAPI,
    state: ServerState,
    streamed: frozenset[tuple[str, str]],
    *,
    api_keys: bool = True,
) -> None:
    """Add what holds for every request.

    `streamed` are methods and paths of routes that count their bodies themselves. Without
    `api_keys`, requests are of sessions and operators alone, and another bearer token is not
    refused.
    """
    settings, clock = state.settings, state.clock
    # The last one added is the first to see a request: the session is known to the others.
    app.add_middleware(
        SecurityMiddleware,
        writes=WriteLimit(
            settings.writes_at_once,
            settings.writes_per_second,
            settings.sessions_per_address,
            clock,
        ),
        proxies=state.proxies,
        limits=BodyLimits(
            settings.body_bytes, settings.body_seconds, streamed, state.stopping, clock
        ),
    )
    if api_keys:
        app.add_middleware(
            KeyMiddleware, keys=state.engine.keys, is_other_token=state.admin.is_token
        )
    app.add_middleware(
        SessionMiddleware,
        sessions=state.sessions,
        proxies=state.proxies,
        secure=settings.secure_cookies,
    )
