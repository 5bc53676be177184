"""What holds for every request: headers, where writes come from, how many, how large, how slow."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError, answer_refusal
from holdfast.http.callers import REFUSAL
from holdfast.http.limit_keys import limit_keys
from holdfast.http.proxies import TrustedProxies
from holdfast.http.sessions import Session
from holdfast.http.write_limit import WriteLimit

HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
}
"""Set on every answer that does not say otherwise."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_TRUSTED_SITES = frozenset({"same-origin", "none"})


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How much of a body is taken in, for how long, and until when.

    Args:
        most_bytes: the largest body of a request whose path is not among `streamed`.
        seconds: the time in which such a body must have come.
        streamed: paths that read their bodies piece by piece and count for themselves.
        stopping: set when the server is about to stop: no more of any body is waited for.
        clock: where time comes from.
    """

    most_bytes: int
    seconds: float
    streamed: frozenset[str]
    stopping: asyncio.Event
    clock: Clock


class SecurityMiddleware:
    """Set the headers; refuse writes from other sites, too many writes, and oversized bodies."""

    def __init__(
        self, app: ASGIApp, writes: WriteLimit, limits: BodyLimits, proxies: TrustedProxies
    ) -> None:
        self._app = app
        self._writes = writes
        self._proxies = proxies
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = self._body(scope, receive)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if body is not None:
                    body.answered = True
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await answer_refusal(Request(scope), refusal)(scope, receive, send_with_headers)
        elif body is None:
            await self._app(scope, receive, send_with_headers)
        else:
            with body.ending(self._limits.stopping):
                await self._app(scope, body, send_with_headers)

    def _body(self, scope: Scope, receive: Receive) -> "_Body | None":
        headers, limits = Headers(scope=scope), self._limits
        if "transfer-encoding" not in headers and headers.get("content-length", "0") == "0":
            return None
        if scope["path"] in limits.streamed:
            return _Body(receive, limits.clock)
        return _Body(receive, limits.clock, limits.most_bytes, limits.seconds)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        wrong_key: ApiError | None = scope.get("state", {}).get(REFUSAL)
        if wrong_key is not None:
            return wrong_key
        if scope["path"] not in self._limits.streamed:
            declared = headers.get("content-length", "")
            if declared.isdigit() and int(declared) > self._limits.most_bytes:
                return ApiError(ErrorCode.TOO_LARGE, headers={"connection": "close"})
        if scope["method"] in _SAFE_METHODS:
            return None
        session: Session = scope["state"]["session"]
        # A page of another site cannot send a key: a header of its own needs a permission, which
        # no answer of ours gives.
        if session.organisation is None and not is_from_here(headers):
            return ApiError(
                ErrorCode.FORBIDDEN,
                "This came from another site and was not done.",
                headers={"connection": "close"},
            )
        address = self._proxies.address(HTTPConnection(scope))
        wait = self._writes.take(limit_keys(session, address))
        if not wait:
            return None
        seconds = str(int(wait) + 1)
        return ApiError(
            ErrorCode.RATE_LIMITED, headers={"retry-after": seconds, "connection": "close"}
        )


def is_from_here(headers: Headers) -> bool:
    """Say whether a write comes from our own pages, or from no page at all.

    Browsers say where a request comes from; other clients have no cookies to abuse.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site not in _TRUSTED_SITES:
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return bool(headers.get("host")) and urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False


class _Body:
    """Receive a body: no more of it than allowed, in the time allowed, and not while stopping."""

    def __init__(
        self,
        receive: Receive,
        clock: Clock,
        most: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self._receive = receive
        self._clock = clock
        self._left = most
        self._until = None if seconds is None else clock.monotonic() + seconds
        self._waiting: asyncio.Timeout | None = None
        self._stops = False
        self._ended = False
        self.answered = False

    @contextmanager
    def ending(self, stopping: asyncio.Event) -> Iterator[None]:
        """While the block runs, wait for no more of the body once `stopping` is set."""
        watch = asyncio.ensure_future(stopping.wait())
        watch.add_done_callback(self._stop)
        try:
            yield
        finally:
            watch.cancel()

    async def __call__(self) -> Message:
        if self._ended:
            # What comes now is only that the client has gone.
            return await self._receive()
        if self._stops:
            return self._refused(_stopping())
        try:
            async with asyncio.timeout(self._seconds_left()) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            return self._refused(_stopping() if self._stops else _too_slow())
        finally:
            self._waiting = None
        self._ended = not message.get("more_body", False)
        if self._left is not None:
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                return self._refused(ApiError(ErrorCode.TOO_LARGE, headers={"connection": "close"}))
        return message

    def _seconds_left(self) -> float | None:
        return None if self._until is None else self._until - self._clock.monotonic()

    def _refused(self, refusal: ApiError) -> Message:
        if self.answered:
            return {"type": "http.disconnect"}
        raise refusal

    def _stop(self, watch: "asyncio.Future[Literal[True]]") -> None:
        if watch.cancelled():
            return
        self._stops = True
        if self._waiting is not None:
            self._waiting.reschedule(0.0)  # long ago, so at once


def _stopping() -> ApiError:
    return ApiError(
        ErrorCode.IO_ERROR,
        "The server is stopping; please send it again in a moment.",
        status=503,
        headers={"retry-after": "5", "connection": "close"},
    )


def _too_slow() -> ApiError:
    line = "The request took too long to arrive."
    return ApiError(ErrorCode.TIMEOUT, line, status=408, headers={"connection": "close"})
