"""Access to the ops routes: the admin token as a bearer, or the cookie of a one-time link.

The link is printed when the server starts. It works once, so one that is found later in a history
or a log opens nothing.
"""

import hashlib
import hmac
import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError, forbidden
from holdfast.http.cookies import CookieName, set_cookie
from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.sessions import Signer

ENTER = "/admin/enter"
OPS = "/ops"
"""Where the dashboard is."""
_LIFETIME = 12 * 3600
"""Seconds that the cookie opens anything."""
_MOST_LINKS = 100
_NO_LINK = "This link was used already, or is another server's. Each start prints a new one."


class AdminAccess:
    """Decide which requests may operate."""

    def __init__(self, secret_key: str, admin_token: str, clock: Clock) -> None:
        self.name = CookieName("admin", secret_key)
        self._token = admin_token
        # Another token ends all sessions that the old one had opened.
        self._signer = Signer(f"{secret_key}\0{admin_token}", "admin")
        self._clock = clock
        self._links: dict[bytes, None] = {}

    def new_link(self) -> str:
        """Return the path of a link that opens the ops routes once."""
        token = secrets.token_urlsafe(24)
        self._links[_digest(token)] = None
        while len(self._links) > _MOST_LINKS:
            del self._links[next(iter(self._links))]
        return f"{ENTER}?token={token}"

    def use_link(self, token: str) -> bool:
        """Say whether `token` is of a link that was not used yet, and use it up."""
        digest = _digest(token)
        return self._links.pop(digest, False) is None

    def allows(self, request: Request) -> bool:
        """Say whether `request` may operate."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.is_token(token.strip())
        cookies, name = request.cookies, self.name
        cookie = cookies.get(name.secure) or cookies.get(name.plain) or ""
        text = self._signer.verify(cookie[:300])
        issued = (text or "").removeprefix("admin.")
        if not (issued.isascii() and issued.isdigit()):
            return False
        return self._clock.wall() - int(issued) < _LIFETIME

    def is_token(self, token: str) -> bool:
        """Say whether `token` is the admin token."""
        return hmac.compare_digest(_digest(token), _digest(self._token))

    def header(self, *, secure: bool) -> str:
        """Return the header that sets the cookie."""
        value = self._signer.sign(f"admin.{int(self._clock.wall())}")
        return set_cookie(self.name.over(https=secure), value, _LIFETIME, secure=secure)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def is_admin(request: Request) -> bool:
    """Say whether the request may operate."""
    access = request.app.state.admin
    assert isinstance(access, AdminAccess)
    return access.allows(request)


def require_admin(request: Request) -> None:
    """Refuse a request that may not operate.

    Raises:
        ApiError: `FORBIDDEN`.
    """
    if not is_admin(request):
        raise forbidden()


IsAdmin = Annotated[bool, Depends(is_admin)]
"""A route's parameter: whether the request may operate."""

router = APIRouter()


@router.get(ENTER, include_in_schema=False, responses=ERROR_ANSWERS)
async def enter(request: Request, token: str = "") -> Response:
    """Take a one-time link, and go to the dashboard."""
    access: AdminAccess = request.app.state.admin
    if not access.use_link(token):
        raise ApiError(ErrorCode.FORBIDDEN, _NO_LINK)
    cookie = access.header(secure=request.state.secure_cookies)
    headers = {"set-cookie": cookie, "cache-control": "no-store"}
    return RedirectResponse(f"{OPS}/", 303, headers)
