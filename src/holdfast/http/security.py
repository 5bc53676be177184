"""What holds for every request: headers, where writes may come from, how many, and how large."""

from collections import OrderedDict
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.http.errors import ApiError, answer_error
from holdfast.http.sessions import Session

HEADERS = {
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
_MOST_BUCKETS = 10_000


class Allowance:
    """A bucket of tokens for each of many keys; the least recently used keys are forgotten."""

    def __init__(self, at_once: int, per_second: float, clock: Clock) -> None:
        self._at_once = float(at_once)
        self._per_second = per_second
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock.monotonic()
        tokens, since = self._buckets.pop(key, (self._at_once, now))
        tokens = min(self._at_once, tokens + (now - since) * self._per_second)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._per_second
        self._buckets[key] = (tokens if wait else tokens - 1, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class SecurityMiddleware:
    """Set the headers; refuse writes from other sites, too many of them, and large bodies.

    Args:
        body_bytes: the largest body of a request whose path is not among `streamed`.
        streamed: paths that read their bodies piece by piece and count for themselves.
    """

    def __init__(
        self, app: ASGIApp, allowance: Allowance, *, body_bytes: int, streamed: frozenset[str]
    ) -> None:
        self._app = app
        self._allowance = allowance
        self._body_bytes = body_bytes
        self._streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await answer_error(refusal)(scope, receive, send_with_headers)
            return
        limited = receive
        if scope["path"] not in self._streamed:
            limited = _Counted(receive, self._body_bytes)
        await self._app(scope, limited, send_with_headers)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        if scope["path"] not in self._streamed:
            declared = headers.get("content-length", "")
            if declared.isdigit() and int(declared) > self._body_bytes:
                return ApiError(ErrorCode.TOO_LARGE, headers={"connection": "close"})
        if scope["method"] in _SAFE_METHODS:
            return None
        if not is_from_here(headers):
            return ApiError(
                ErrorCode.FORBIDDEN,
                "This came from another site and was not done.",
                headers={"connection": "close"},
            )
        session: Session = scope["state"]["session"]
        client = scope.get("client")
        key = session.owner if session.known else f"at {client[0] if client else 'nowhere'}"
        wait = self._allowance.take(key)
        if not wait:
            return None
        seconds = str(int(wait) + 1)
        return ApiError(
            ErrorCode.RATE_LIMITED, headers={"retry-after": seconds, "connection": "close"}
        )


def is_from_here(headers: Headers) -> bool:
    """Say whether a write comes from our own pages, or from no page at all.

    Browsers say where a request comes from; what is no browser has no cookies to borrow.
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


class _Counted:
    """Receive a body, and no more of it than allowed, whatever was declared."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._left = most

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise ApiError(ErrorCode.TOO_LARGE, headers={"connection": "close"})
        return message
