"""Sessions: a signed cookie names the owner, without an account.

The cookie is `owner.issued.signature`. It is set when a route used the owner and the request
had no session, so that health checks and static files create none.
"""

import base64
import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.clock import Clock

COOKIE = "holdfast_session"
_LIFETIME = 400 * 86_400
"""Seconds that a session lasts: the most that browsers keep a cookie for."""
_RENEW_AFTER = 30 * 86_400
_LONGEST_COOKIE = 300
_NETWORK_LETTERS = 12
_IPV6_PREFIX = 64
"""Bits of an IPv6 address that a provider assigns; a client chooses the others."""
_READS = frozenset({"GET", "HEAD"})


class Signer:
    """Sign short texts for one purpose, so that no signature can be used for another."""

    def __init__(self, secret_key: str, purpose: str) -> None:
        self._key = hashlib.sha256(f"{purpose}\0{secret_key}".encode()).digest()

    def sign(self, text: str) -> str:
        """Return `text` with its signature after a dot."""
        return f"{text}.{self._signature(text)}"

    def verify(self, signed: str) -> str | None:
        """Return what was signed; None where it was not signed with this key."""
        text, _, signature = signed.rpartition(".")
        good = hmac.compare_digest(self._signature(text).encode(), signature.encode())
        return text if good and text else None

    def _signature(self, text: str) -> str:
        digest = hmac.new(self._key, text.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(slots=True)
class Session:
    """The session of one request; `known` is False where the request brought none.

    `organisation` is that of the request's API key; None without one.
    """

    owner: str
    known: bool
    stale: bool = False
    used: bool = False
    organisation: str | None = None


class Sessions:
    """Read and write session cookies."""

    def __init__(self, secret_key: str, clock: Clock, *, secure: bool) -> None:
        self._signer = Signer(secret_key, "session")
        self._clock = clock
        self._secure = secure

    def read(self, cookie: str | None) -> Session:
        """Return the session that `cookie` names, or a new one."""
        if cookie and len(cookie) <= _LONGEST_COOKIE:
            text = self._signer.verify(cookie)
            owner, _, issued = (text or "").rpartition(".")
            if owner and issued.isascii() and issued.isdigit():
                age = self._clock.wall() - int(issued)
                if age < _LIFETIME:
                    return Session(owner, known=True, stale=age > _RENEW_AFTER)
        return Session(secrets.token_urlsafe(18), known=False)

    def new_owner(self, address: str, *, reads: bool) -> str:
        """Return the name of a new session's owner: `address/page/…`, or `address/post/…`.

        A client that keeps no cookie is a new owner with every upload. By the levels of their
        names, those of one address share the places of a downstream as one owner does, see
        `Downstream.spare`; sessions that began with a page (`reads`) have places beside them. What
        stands for the address, or for the /64 network of IPv6, cannot be turned back into it.
        """
        network = self._signer.sign(f"network {_network(address)}").rpartition(".")[2]
        first = "page" if reads else "post"
        return f"{network[:_NETWORK_LETTERS]}/{first}/{secrets.token_urlsafe(18)}"

    def cookie(self, owner: str) -> str:
        """Return the value of the cookie that names `owner`."""
        return self._signer.sign(f"{owner}.{int(self._clock.wall())}")

    def header(self, owner: str) -> str:
        """Return the header that sets the cookie."""
        return set_cookie(COOKIE, self.cookie(owner), _LIFETIME, secure=self._secure)


def set_cookie(name: str, value: str, max_age: int, *, secure: bool) -> str:
    """Return a Set-Cookie header; `max_age` is seconds."""
    ending = "; Secure" if secure else ""
    return f"{name}={value}; Max-Age={max_age}; Path=/; HttpOnly; SameSite=Lax{ending}"


class SessionMiddleware:
    """Give each request its session, and each answer its cookie where one is due."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = self._sessions.read(HTTPConnection(scope).cookies.get(COOKIE))
        if not session.known:
            address = (scope.get("client") or ("", 0))[0]
            reads = scope["method"] in _READS
            session.owner = self._sessions.new_owner(address, reads=reads)
        scope.setdefault("state", {})["session"] = session

        async def send_with_cookie(message: Message) -> None:
            due = session.used and (session.stale or not session.known)
            if message["type"] == "http.response.start" and due:
                headers = MutableHeaders(scope=message)
                headers.append("set-cookie", self._sessions.header(session.owner))
            await send(message)

        await self._app(scope, receive, send_with_cookie)


def _network(address: str) -> str:
    """Return what one client can choose its addresses from: an IPv6 network, or its address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
    return str(parsed)


def session_of(request: Request) -> Session:
    """Return the request's session; the answer sets its cookie if it is new."""
    session = request.state.session
    assert isinstance(session, Session)
    session.used = True
    return session


def owner_of(request: Request) -> str:
    """Return the owner that the request's API key or session names; a new one without both."""
    return session_of(request).owner


Owner = Annotated[str, Depends(owner_of)]
"""A route's parameter: whose API key or session it is."""
