"""Render pages from templates: the server's state, the apps' parts, and the files they load."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi.responses import HTMLResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from jinja2.loaders import BaseLoader, FileSystemLoader
from starlette.requests import Request

from holdfast.http.api_errors import ApiError
from holdfast.http.pages import humanize
from holdfast.http.pages.assets import Assets, common_assets
from holdfast.http.pages.job_rows import word_of
from holdfast.http.plugins import PagePart
from holdfast.http.served_app import ServerState
from holdfast.jobs.model import Job, JobStatus

THEME_COOKIE = "holdfast_theme"
THEMES = ("auto", "light", "dark")
_HEADERS = {
    # The browser may keep a page for going back; what it shows is asked for again.
    "cache-control": "private, no-cache",
    "vary": "HX-Request-Type, Cookie",
}


class Renderer:
    """Render the pages of one server.

    Attributes:
        parts: what apps add to the front page, by app.
        assets: the files that pages load.
    """

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.parts: dict[str, PagePart] = {}
        for name, app in state.apps.items():
            part = app.page()
            if part is not None:
                self.parts[name] = part
        self.assets = _assets(self.parts)
        self._templates = _environment(self.parts)
        self._templates.globals |= {"asset": self.assets.url, "parts": self.parts}

    @property
    def noun(self) -> str:
        """What the jobs on the front page are called, in the plural."""
        nouns = {part.noun for part in self.parts.values()}
        return nouns.pop() if len(nouns) == 1 else "jobs"

    @property
    def title(self) -> str:
        """What the front page is for."""
        titles = [part.title for part in self.parts.values()]
        return titles[0] if len(titles) == 1 else "Your jobs"

    def words(self, job: Job) -> Mapping[JobStatus, str]:
        """Return what the app of `job` calls statuses."""
        app = self.state.app_of(job)
        part = None if app is None else self.parts.get(app.name)
        return {} if part is None else part.statuses

    def word_for(self, status: JobStatus) -> str:
        """Return what `status` is called where jobs of all apps stand together."""
        words = {part.statuses.get(status) for part in self.parts.values()} - {None}
        return (words.pop() if len(words) == 1 else None) or word_of(status)

    def note(self, key: str) -> str:
        """Return the line that an app shows for `key`; empty where none has one."""
        lines = (part.notes.get(key) for part in self.parts.values())
        return next((line for line in lines if line), "")

    def text(self, request: Request, template: str, **values: Any) -> str:
        """Render `template` for `request`."""
        theme = request.cookies.get(THEME_COOKIE)
        return self._templates.get_template(template).render(
            theme=theme if theme in THEMES else THEMES[0],
            themes=THEMES,
            live_scripts=self.assets.live_scripts(),
            renderer=self,
            **values,
        )

    def answer(
        self, request: Request, template: str, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Answer `request` with a rendered page."""
        return HTMLResponse(self.text(request, template, **values), status, _HEADERS)

    def refuse(self, request: Request, refusal: ApiError) -> Response:
        """Answer `request` with a page that says why not."""
        line, status = str(refusal), refusal.status
        answer = self.answer(request, "refused.html", status, line=line, refused_with=status)
        answer.headers.update(refusal.headers)
        return saying(answer, line)


def saying(answer: Response, line: str) -> Response:
    """Let the page say `line`: it stands outside of what htmx puts in its place."""
    answer.headers["hx-trigger"] = json.dumps({"holdfast:say": {"text": line}})
    return answer


def is_partial(request: Request) -> bool:
    """Say whether htmx asks for the part that changes, and not for a whole page."""
    return request.headers.get("hx-request-type") == "partial"


def _assets(parts: Mapping[str, PagePart]) -> Assets:
    assets = common_assets()
    for name, part in parts.items():
        assets.add(part.folder / "static", f"{name}/")
    return assets


def _environment(parts: Mapping[str, PagePart]) -> Environment:
    own: dict[str, BaseLoader] = {
        name: FileSystemLoader(part.folder / "templates") for name, part in parts.items()
    }
    environment = Environment(
        loader=ChoiceLoader([PrefixLoader(own), PackageLoader("holdfast.http.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "segment": lambda text: quote(text, safe=""),
        "size": humanize.size,
        "duration": humanize.duration,
        "countdown": humanize.countdown,
        "ago": humanize.ago,
        "iso": humanize.iso,
        "clock": humanize.clock_time,
    }
    return environment
