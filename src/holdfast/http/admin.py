"""Access to the ops routes: a token as a bearer, or a cookie from the login or a one-time link.

The link is printed when the server starts. It works once, so one that is found later in a history
or a log opens nothing. Full tokens and the link allow everything, a reader's token only to look.
"""

import secrets
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import RedirectResponse

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError, forbidden
from holdfast.http.cookies import CookieName, set_cookie
from holdfast.http.operators import BY_LINK, Operator, OperatorTokens, digest
from holdfast.http.schemas import ERROR_ANSWERS

ENTER = "/admin/enter"
HOME = "/ops"
"""Where operators come to after the login; only pages below it are returned to."""
LOGIN_PAGE = "/ops/login"
LINK_TARGET = f"{HOME}/"
"""Where a one-time link leads."""
_LIFETIME = 12 * 3600
"""Seconds that the cookie opens anything."""
_MOST_LINKS = 100
_NO_LINK = "This link was used already, or is another server's. Each start prints a new one."
_READ_ONLY = "Your token allows to look, not to change anything."


class AdminAccess:
    """Decide who operates.

    Args:
        secret_key: signs the cookies.
        admin_token: the full tokens, see `holdfast.settings.named_tokens`.
        clock: says when cookies end.
        reader_token: the tokens that allow to look; None if there is none.
    """

    def __init__(
        self, secret_key: str, admin_token: str, clock: Clock, reader_token: str | None = None
    ) -> None:
        self.name = CookieName("admin", secret_key)
        self._tokens = OperatorTokens(secret_key, admin_token, reader_token)
        self._clock = clock
        self._links: dict[bytes, None] = {}

    def new_link(self) -> str:
        """Return the path of a link that opens the ops routes once, with all rights."""
        token = secrets.token_urlsafe(24)
        self._links[digest(token)] = None
        while len(self._links) > _MOST_LINKS:
            del self._links[next(iter(self._links))]
        return f"{ENTER}?token={token}"

    def use_link(self, token: str) -> Operator | None:
        """Return whom `token`, of a link that was not used yet, logs in, and use it up."""
        return BY_LINK if self._links.pop(digest(token), False) is None else None

    def operator(self, request: Request) -> Operator | None:
        """Return who operates by `request`; None for everyone else."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        found = self.find(token.strip()) if kind.lower() == "bearer" else None
        if found is not None:
            return found
        cookies, name = request.cookies, self.name
        cookie = cookies.get(name.secure) or cookies.get(name.plain) or ""
        verified = self._tokens.verify(cookie[:300])
        if verified is None or self._clock.wall() - verified[1] >= _LIFETIME:
            return None
        return verified[0]

    def find(self, token: str) -> Operator | None:
        """Return whose token this is."""
        return self._tokens.find(token)

    def is_token(self, token: str) -> bool:
        """Say whether `token` is one of an operator."""
        return self.find(token) is not None

    def header(self, operator: Operator, *, secure: bool) -> str:
        """Return the header that sets the cookie of `operator`."""
        value = self._tokens.sign(operator, int(self._clock.wall()))
        return set_cookie(self.name.over(https=secure), value, _LIFETIME, secure=secure)

    def end(self, answer: Response) -> Response:
        """Let `answer` remove the cookie, whether it was set over http or over https."""
        for https in (True, False):
            header = set_cookie(self.name.over(https=https), "", 0, secure=https)
            answer.headers.append("set-cookie", header)
        return answer


def operator_of(request: Request) -> Operator | None:
    """Return who operates by the request; None for everyone else."""
    access = request.app.state.admin
    assert isinstance(access, AdminAccess)
    return access.operator(request)


def is_operator(request: Request) -> bool:
    """Say whether the request comes from an operator, who may see everything."""
    return operator_of(request) is not None


def require_operator(request: Request) -> Operator:
    """Return who operates, and refuse everyone else: for what only looks.

    Raises:
        ApiError: `FORBIDDEN`.
    """
    operator = operator_of(request)
    if operator is None:
        raise forbidden()
    return operator


def require_admin(request: Request) -> Operator:
    """Return who operates, and refuse those who may not change anything.

    Raises:
        ApiError: `FORBIDDEN`.
    """
    operator = require_operator(request)
    if not operator.may_change:
        raise ApiError(ErrorCode.FORBIDDEN, _READ_ONLY)
    return operator


def changing_operator(request: Request) -> Operator | None:
    """Return who operates and may change things; None for everyone else, readers included."""
    operator = operator_of(request)
    return operator if operator is not None and operator.may_change else None


ChangingOperator = Annotated[Operator | None, Depends(changing_operator)]
"""A route's parameter, where owners may change what is theirs and operators what is anyone's."""
IsAdmin = Annotated[bool, Depends(is_operator)]
"""A route's parameter: whether the request comes from an operator, who may see everything."""

router = APIRouter()


@router.get(ENTER, include_in_schema=False, responses=ERROR_ANSWERS)
async def enter(request: Request, token: str = "") -> Response:
    """Take a one-time link, and go to the dashboard."""
    access: AdminAccess = request.app.state.admin
    operator = access.use_link(token)
    if operator is None:
        raise ApiError(ErrorCode.FORBIDDEN, _NO_LINK)
    return _go(LINK_TARGET, access.header(operator, secure=request.state.secure_cookies))


@router.post("/admin/login", include_in_schema=False, responses=ERROR_ANSWERS)
async def log_in(
    request: Request,
    token: Annotated[str, Form(max_length=500)] = "",
    to: Annotated[str, Form(max_length=2000)] = HOME,
) -> Response:
    """Set the cookie of the operator with this token, and go to the page `to` below `/ops`."""
    access: AdminAccess = request.app.state.admin
    operator = access.find(token.strip())
    safe = to == HOME or to.startswith((f"{HOME}/", f"{HOME}?"))
    if operator is None:
        back = {"failed": "1"} | ({"to": to} if safe and to != HOME else {})
        return _go(f"{LOGIN_PAGE}?{urlencode(back)}")
    return _go(to if safe else HOME, access.header(operator, secure=request.state.secure_cookies))


@router.post("/admin/logout", include_in_schema=False, responses=ERROR_ANSWERS)
async def log_out(request: Request) -> Response:
    """Remove the cookie, and go to the login."""
    access: AdminAccess = request.app.state.admin
    return access.end(_go(LOGIN_PAGE))


def _go(path: str, cookie: str = "") -> Response:
    headers = {"set-cookie": cookie} if cookie else {}
    return RedirectResponse(path, 303, {**headers, "cache-control": "no-store"})
