"""Log in with the admin token, log out, and choose light or dark."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from holdfast.http.ops.access import LoginNeeded
from holdfast.http.ops.frame import Frame, path_of, path_with_query, root_of
from holdfast.http.pages.page_routes import is_own_path, theme_cookie
from holdfast.http.pages.renderer import is_partial

_LONGEST = 1000
_WRONG = "This is not a token of an operator."
Field = Annotated[str, Form(max_length=_LONGEST)]


def add_login_pages(router: APIRouter, frame: Frame) -> None:
    """Add the routes that need no login."""
    access = frame.state.admin

    @router.get("/login")
    async def show_login(request: Request, to: str = "", failed: str = "") -> Response:
        return frame.answer(request, "login.html", to=to, line=_WRONG if failed else "")

    @router.post("/login")
    async def log_in(request: Request, token: Field = "", to: Field = "") -> Response:
        operator = access.find(token.strip())
        if operator is None:
            return frame.answer(request, "login.html", 403, to=to, line=_WRONG)
        cookie = access.header(operator, secure=request.state.secure_cookies)
        headers = {"set-cookie": cookie, "cache-control": "no-store"}
        return RedirectResponse(_inside(request, to), 303, headers)

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        return access.end(RedirectResponse(f"{root_of(request)}/login", 303))

    @router.post("/theme")
    async def choose_theme(request: Request, theme: Field = "", back: Field = "") -> Response:
        headers = {"set-cookie": theme_cookie(request, theme)}
        return RedirectResponse(_inside(request, back), 303, headers)


async def ask_for_login(request: Request, error: Exception) -> Response:
    """Lead a person who opens a page to the login; refuse every other request."""
    assert isinstance(error, LoginNeeded)
    if request.method == "GET" and not is_partial(request):
        asked = path_with_query(request)
        to = asked if len(asked) <= _LONGEST else path_of(request)
        return RedirectResponse(f"{root_of(request)}/login?to={quote(to)}", 303)
    refused: Response = request.app.state.refusal_page(request, error)
    return refused


def _inside(request: Request, path: str) -> str:
    """Return `path` where it is one of the dashboard's pages, else its front page."""
    root, bare = root_of(request), path.partition("?")[0]
    return path if bare.startswith(f"{root}/") and is_own_path(bare) else f"{root}/"
