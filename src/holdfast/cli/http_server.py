"""uvicorn with our signal handling, a limit on slow request heads, and a quiet shutdown."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 30.0
"""The time in which a connection must have brought the whole head of its next request."""
IDLE_SECONDS = 30
"""Seconds that an idle connection is kept. Clients close theirs after about 5 s; a server that did
so too would close some at the moment of their next request, and lose it."""
_CLOSING_SECONDS = 5


class Server(uvicorn.Server):
    """uvicorn's server, which leaves the signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield


def uvicorn_server(app: ASGIApp, stopping: asyncio.Event) -> Server:
    """Return a server for `app`; `stopping` is set when it is about to stop."""
    return Server(
        uvicorn.Config(
            _Quiet(app, stopping),
            http=TimedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,  # its records go where all others go
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
    )


class TimedProtocol(H11Protocol):
    """Close connections on which the head of a request does not come.

    uvicorn itself limits only the time between an answer and the first byte that follows it.
    """

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head that has begun, and no longer for one that is complete."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._wait_no_more()
        elif self._limit is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._limit = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


class _Quiet:
    """An app whose requests may be cut off at the end without a traceback on the terminal."""

    def __init__(self, app: ASGIApp, stopping: asyncio.Event) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
