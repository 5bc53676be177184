"""Sessions: a signed cookie names the owner, without an account.

The cookie is `owner.issued.signature`. It is set when a route used the owner and the request
had no session, so that health checks and static files create none.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.clock import Clock
from holdfast.http.cookies import CookieName, set_cookie
from holdfast.http.proxies import TrustedProxies

_OLD_NAME = "holdfast_session"
"""The cookie's name before it had the key's fingerprint. It is read, and not set any more."""
_LIFETIME = 400 * 86_400
"""Seconds that a session lasts: the most that browsers keep a cookie for."""
_RENEW_AFTER = 30 * 86_400
_LONGEST_COOKIE = 300
_NETWORK_LETTERS = 12
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

    def __init__(self, secret_key: str, clock: Clock) -> None:
        self.name = CookieName("session", secret_key)
        self._signer = Signer(secret_key, "session")
        self._clock = clock

    def find(self, cookies: Mapping[str, str], *, secure: bool) -> Session:
        """Return the session that one of `cookies` names, or a new one.

        One that came under another name than the one for `secure` is stale, so that it is set anew.
        """
        wanted = self.name.over(https=secure)
        for name in (wanted, self.name.secure, self.name.plain, _OLD_NAME):
            session = self.read(cookies.get(name))
            if session.known:
                session.stale = session.stale or name != wanted
                return session
        return self.read(None)

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
        stands for `address`, which is that of `TrustedProxies`, cannot be turned back into it.
        """
        network = self._signer.sign(f"network {address}").rpartition(".")[2]
        first = "page" if reads else "post"
        return f"{network[:_NETWORK_LETTERS]}/{first}/{secrets.token_urlsafe(18)}"

    def cookie(self, owner: str) -> str:
        """Return the value of the cookie that names `owner`."""
        return self._signer.sign(f"{owner}.{int(self._clock.wall())}")

    def header(self, owner: str, *, secure: bool) -> str:
        """Return the header that sets the cookie."""
        name = self.name.over(https=secure)
        return set_cookie(name, self.cookie(owner), _LIFETIME, secure=secure)


class SessionMiddleware:
    """Give each request its session, and each answer its cookie where one is due.

    Args:
        app: what answers.
        sessions: reads and writes the cookies.
        proxies: finds out whether a request came over https.
        secure: whether cookies are for https alone; None decides by the request.
    """

    def __init__(
        self, app: ASGIApp, sessions: Sessions, proxies: TrustedProxies, *, secure: bool | None
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._proxies = proxies
        self._secure = secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        secure = self._secure
        if secure is None:
            secure = self._proxies.is_https(connection)
        session = self._sessions.find(connection.cookies, secure=secure)
        if not session.known:
            address = self._proxies.address(connection)
            session.owner = self._sessions.new_owner(address, reads=scope["method"] in _READS)
        scope.setdefault("state", {}).update(session=session, secure_cookies=secure)

        async def send_with_cookie(message: Message) -> None:
            due = session.used and (session.stale or not session.known)
            if message["type"] == "http.response.start" and due:
                headers = MutableHeaders(scope=message)
                headers.append("set-cookie", self._sessions.header(session.owner, secure=secure))
            await send(message)

        await self._app(scope, receive, send_with_cookie)


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
