"""What holds for every request: headers, where writes come from, how many, how large, how slow."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError, answer_refusal
from holdfast.http.body_limits import BodyLimits, too_large
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
        body = self._limits.body(scope, receive)

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

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        wrong_key: ApiError | None = scope.get("state", {}).get(REFUSAL)
        if wrong_key is not None:
            return wrong_key
        if self._limits.declared_too_large(scope):
            return too_large()
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
