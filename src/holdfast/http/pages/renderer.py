"""Render pages from templates: the server's state, the apps' parts, and the files they load."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
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
from holdfast.http.served_app import ServedApp, ServerState
from holdfast.jobs.model import Job, JobStatus

THEME_COOKIE = "holdfast_theme"
THEMES = ("auto", "light", "dark")
_REMOVAL = "Its history is deleted too."
PAGE_HEADERS = {
    # The browser may keep a page for going back; what it shows is asked for again.
    "cache-control": "private, no-cache",
    "vary": "HX-Request-Type, Cookie",
}


@dataclass(frozen=True, slots=True)
class NavLink:
    """A link of the navigation; `current` is the value of `aria-current`, "" for another page."""

    label: str
    path: str
    current: str


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
        folders = {name: part.folder for name, part in self.parts.items()}
        folders |= {n: app.folder for n, app in state.apps.items() if app.folder is not None}
        self.assets = _assets(folders)
        self._templates = _own_environment(folders)
        self._templates.globals |= {"asset": self.assets.url, "parts": self.parts}

    @property
    def listed_kinds(self) -> tuple[str, ...] | None:
        """The kinds whose jobs stand on the front page; None for all.

        An app in the navigation shows its jobs on its own pages, unless it has a part of the front
        page.
        """
        listed = self._listed_apps()
        if len(listed) == len(self.state.apps):
            return None
        return tuple(name for app in listed for kind in app.app.kinds for name in kind.names)

    def _listed_apps(self) -> list[ServedApp]:
        apps = self.state.apps.values()
        return [app for app in apps if app.name in self.parts or not app.navigation]

    def calls(self, downstream: str) -> bool:
        """Say whether jobs that stand on the front page call `downstream`."""
        kinds = [kind for app in self._listed_apps() for kind in app.app.kinds]
        return any(kind.downstream and kind.downstream.covers(downstream) for kind in kinds)

    def navigation(self, path: str) -> list[NavLink]:
        """Return the links that join the pages of all apps, as the page at `path` shows them."""
        items = [item for app in self.state.apps.values() for item in app.navigation]
        if not items:
            return []
        here = max(
            (item.path for item in items if f"{path}/".startswith(f"{item.path}/")),
            key=len,
            default="/",
        )
        front = [] if self.listed_kinds == () else [("/", self.noun.capitalize())]
        links = [*front, *((item.path, item.label) for item in items)]
        mark = "page" if here == path else "true"
        return [NavLink(label, to, mark if to == here else "") for to, label in links]

    @property
    def noun(self) -> str:
        """What the jobs on the front page are called, in the plural."""
        nouns = {part.noun for part in self.parts.values()}
        return nouns.pop() if len(nouns) == 1 else "jobs"

    @property
    def counted(self) -> tuple[str, str]:
        """What is counted on the front page, one and several."""
        counted = {part.counted for part in self.parts.values()}
        return counted.pop() if len(counted) == 1 else ("job", "jobs")

    def count(self, number: int) -> str:
        """Return a number of the jobs on the front page: 1 file, 60 files."""
        one, several = self.counted
        return f"{number} {one if number == 1 else several}"

    @property
    def removal(self) -> str:
        """What is deleted with a job."""
        lines = dict.fromkeys(part.removal for part in self.parts.values())
        return " ".join(lines) or _REMOVAL

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
        return self._templates.get_template(template).render(
            **theme_values(request),
            live_scripts=self.assets.live_scripts(),
            navigation=self.navigation(request.url.path),
            renderer=self,
            **values,
        )

    def answer(
        self, request: Request, template: str, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Answer `request` with a rendered page."""
        return HTMLResponse(self.text(request, template, **values), status, PAGE_HEADERS)

    def refuse(self, request: Request, refusal: ApiError) -> Response:
        """Answer `request` with a page that says why not."""
        line, status = str(refusal), refusal.status
        answer = self.answer(request, "refused.html", status, line=line, refused_with=status)
        answer.headers.update(refusal.headers)
        return saying(answer, line)


def theme_values(request: Request) -> dict[str, Any]:
    """Return what the layout knows of light and dark: the chosen theme, and all of them."""
    theme = request.cookies.get(THEME_COOKIE)
    return {"theme": theme if theme in THEMES else THEMES[0], "themes": THEMES}


def saying(answer: Response, line: str) -> Response:
    """Let the page say `line`: it stands outside of what htmx puts in its place."""
    answer.headers["hx-trigger"] = json.dumps({"holdfast:say": {"text": line}})
    return answer


def is_partial(request: Request) -> bool:
    """Say whether htmx asks for the part that changes, and not for a whole page."""
    return request.headers.get("hx-request-type") == "partial"


def _assets(folders: Mapping[str, Path]) -> Assets:
    assets = common_assets()
    for name, folder in folders.items():
        assets.add(folder / "static", f"{name}/")
    return assets


def _own_environment(folders: Mapping[str, Path]) -> Environment:
    own: dict[str, BaseLoader] = {
        name: FileSystemLoader(folder / "templates") for name, folder in folders.items()
    }
    return page_environment(PrefixLoader(own))


def page_environment(own: BaseLoader) -> Environment:
    """Return the environment of templates: those of `own`, then those of all pages."""
    environment = Environment(
        loader=ChoiceLoader([own, PackageLoader("holdfast.http.pages")]),
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
        "rough": humanize.rough,
        "ago": humanize.ago,
        "iso": humanize.iso,
        "clock": humanize.clock_time,
        "time_of_day": humanize.time_of_day,
    }
    return environment
