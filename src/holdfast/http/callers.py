"""Who sends a request: the owner and the organisation, by an API key or by the session.

A key comes as `Authorization: Bearer hf_…` or as `X-API-Key`. A wrong or revoked one, and every
other bearer token but the operators', is refused whatever is asked for, with 401: a program with a
mistaken key must not become a visitor instead.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.http.api_errors import ApiError, as_api_error
from holdfast.http.sessions import Session, session_of
from holdfast.jobs.client.api_keys import RESERVED, KeyControl

LOCAL = "local"
"""The organisation of requests from the server's own machine that have no key."""

REFUSAL = "key_refusal"
"""Where the state of a request says why its key is refused."""

_LONGEST_KEY = 200
_FORWARDED = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
    "x-forwarded-server", "x-forwarded-by", "x-real-ip", "x-client-ip", "true-client-ip",
    "cf-connecting-ip",
)  # fmt: skip
"""Headers that a proxy adds: behind one, every request comes from the proxy's own address."""


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """Who sends a request.

    Args:
        owner: whose jobs it sees and creates; keys of two organisations never have the same.
        organisation: whose data it sees and changes; apps keep those of others apart.
        is_known: whether the request brought a key or a session's cookie. Without both the next
            request has another owner, unless the client keeps the cookie that it is sent.
    """

    owner: str
    organisation: str
    is_known: bool = True


class KeyMiddleware:
    """Put the owner and the organisation of a request's API key in the place of its session.

    Args:
        app: what answers.
        keys: finds the key.
        is_other_token: says whether a bearer token is one of another kind, for operators.
    """

    def __init__(
        self, app: ASGIApp, keys: KeyControl, is_other_token: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._keys = keys
        self._is_other_token = is_other_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http":
            secret = self._secret(Headers(scope=scope))
            if secret is not None:
                await self._use(scope, secret)
        await self._app(scope, receive, send)

    def _secret(self, headers: Headers) -> str | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip()
        if kind.lower() == "bearer" and not self._is_other_token(token):
            return token
        return headers.get("x-api-key")

    async def _use(self, scope: Scope, secret: str) -> None:
        try:
            found = await self._keys.find(secret) if len(secret) <= _LONGEST_KEY else None
        except HoldfastError as error:
            scope["state"][REFUSAL] = as_api_error(Request(scope), error)
            return
        if found is None:
            scope["state"][REFUSAL] = ApiError(
                ErrorCode.UNAUTHENTICATED, headers={"www-authenticate": "Bearer"}
            )
            return
        # Not the session that was read from the cookie: that one would be given a cookie.
        scope["state"]["session"] = Session(
            found.job_owner, known=True, organisation=found.organisation
        )


def caller_of(request: Request) -> CallerIdentity:
    """Return who sends the request."""
    session = session_of(request)
    if session.organisation is not None:
        return CallerIdentity(session.owner, session.organisation, session.known)
    if request.app.state.local_access and is_local(request):
        return CallerIdentity(session.owner, LOCAL, session.known)
    return CallerIdentity(session.owner, f"{RESERVED}{session.owner}", session.known)


Caller = Annotated[CallerIdentity, Depends(caller_of)]
"""A route's parameter: who sends the request, with `.owner` and `.organisation`.

Without a key, requests from the server's own machine belong to the organisation "local", unless
`HttpSettings.local_access` is off, and every other session to one of its own.
"""


def is_local(request: Request) -> bool:
    """Say whether a request was made on the server's own machine, for that machine.

    A loopback address is not enough: a proxy on the machine has one too, and so has a browser there
    that a foreign page has led to a name which resolves to 127.0.0.1.
    """
    if request.client is None or not _is_loopback(request.client.host):
        return False
    if any(name in request.headers for name in _FORWARDED):
        return False
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return False
    return host == "localhost" or _is_loopback(host)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
