"""What all pages of the dashboard share: templates, links, files, notes and refusals."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import PackageLoader

from holdfast.errors import HoldfastError
from holdfast.http.admin import operator_of, require_admin
from holdfast.http.api_errors import ApiError, as_api_error
from holdfast.http.audited import audit_entry, record_change
from holdfast.http.ops.notes import note_line
from holdfast.http.ops_schemas import Text
from holdfast.http.pages.assets import page_assets
from holdfast.http.pages.renderer import (
    PAGE_HEADERS,
    NavLink,
    is_partial,
    page_environment,
    saying,
    theme_values,
)
from holdfast.http.served_app import ServerState
from holdfast.jobs.operations_port import AuditEntry

_HERE = Path(__file__).parent
_PAGES = (
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/dead-letters", "Dead letters"),
    ("/downstreams", "Downstreams"),
    ("/queues", "Queues"),
    ("/owners", "Owners"),
    ("/periodic", "Periodic"),
    ("/outbox", "Outbox"),
    ("/workers", "Workers"),
    ("/webhooks", "Webhooks"),
    ("/intake", "Intake"),
    ("/audit", "Audit"),
)
_CONFLICT = 409
_TEMPLATES = ("ops_frame.html", "ops_part.html", "ops_refused.html", "login.html")
_FILES = ("ops/ops.css", "ops/ops.js")

Name = Annotated[Text, Form(min_length=1, max_length=500)]
"""A field of a form: the name of what is changed."""
Confirmed = Annotated[str, Form()]
"""A field of a form: not empty once the operator has confirmed."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A question before something is destroyed or changed for many jobs.

    Args:
        title: the question.
        words: what will happen, and whether it can be undone.
        action: where the answer is posted, below the dashboard.
        label: what the button says that does it.
        back: the page to return to, below the dashboard.
        fields: sent with the answer.
        facts: what is counted, by name.
        rate: jobs per second that the form proposes; None does not ask for a rate.
        ids: the jobs that it is about, each sent as a field `id`.
        destroys: whether it cannot be undone.
    """

    title: str
    words: str
    action: str
    label: str
    back: str
    fields: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] | None = None
    rate: float | None = None
    ids: tuple[str, ...] = ()
    destroys: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """What an action does.

    Args:
        action: what the audit log calls it, such as `downstreams.reset`.
        target: what it is done to.
        back: the page that shows it, below the dashboard.
        note: the key of the line that the page shows.
        detail: what else the audit log says of it, as JSON takes it.
    """

    action: str
    target: str
    back: str
    note: str
    detail: Mapping[str, Any] = field(default_factory=dict)


class Frame:
    """Render the pages of one dashboard.

    Attributes:
        state: what the dashboard shows.
        assets: the files that its pages load.

    Raises:
        ValueError: the installation lacks templates of the dashboard, or files of its pages.
    """

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.engine = state.engine
        self.assets = page_assets()
        self.assets.add(_HERE / "static", "ops/")
        self._templates = page_environment(PackageLoader("holdfast.http.ops"))
        missing = self._missing_files()
        if missing:
            raise ValueError(
                "this installation of Holdfast lacks files of the dashboard, install it again: "
                + ", ".join(missing)
            )

    def _missing_files(self) -> list[str]:
        """Return the names of files without which no page can be shown."""
        templates = set(self._templates.list_templates())
        missing = [name for name in _TEMPLATES if name not in templates]
        return missing + [name for name in _FILES if self.assets.get(name) is None]

    def answer(
        self, request: Request, template: str, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Answer with a page; to htmx, with the part of it that changes."""
        root, note = root_of(request), str(values.pop("note", ""))
        partial, operator = is_partial(request), operator_of(request)
        text = self._templates.get_template(template).render(
            **theme_values(request),
            frame="ops_part.html" if partial else "ops_frame.html",
            root=root,
            asset=lambda name: root + self.assets.url(name),
            here=path_of(request),
            live_scripts=[root + url for url in self.assets.live_scripts()],
            parts={},
            navigation_label="Operations",
            navigation=self._navigation(request),
            operator=operator,
            can_change=operator is not None and operator.may_change,
            note=note,
            **values,
        )
        answer = HTMLResponse(text, status, PAGE_HEADERS)
        if partial and note:
            saying(answer, note)
        return answer

    async def page(self, request: Request, template: str, **values: Any) -> Response:
        """Answer with a live page: `now` is the store's clock, and a `?note=` is shown."""
        note = note_line(self.engine.registry.errors, request.query_params.get("note"))
        values.setdefault("now", await self.engine.store.ping())
        values["stream"] = f"{root_of(request)}/events"
        values["live_path"] = path_with_query(request)
        return self.answer(request, template, note=note, **values)

    def confirm(self, request: Request, question: Confirmation) -> Response:
        """Answer with a page that asks before anything is done."""
        return self.answer(request, "confirm.html", question=question)

    async def do(self, request: Request, move: Awaitable[object], change: Change) -> Response:
        """Await `move`, record it, and go back to the page that shows what it did.

        What the present state does not allow is said there; every other error is a refusal.
        """
        refused = await _refusal(request, move)
        if refused is None:
            await self.record(request, change.action, change.target, **change.detail)
        return self.back(request, change.back, refused or change.note)

    async def do_with_entry(
        self, request: Request, move: Callable[[AuditEntry], Awaitable[object]], change: Change
    ) -> Response:
        """Do the same with a move that stores the entry of the audit log that it is given."""
        operator, detail = require_admin(request), dict(change.detail)
        entry = await audit_entry(request, operator, change.action, change.target, detail)
        refused = await _refusal(request, move(entry))
        return self.back(request, change.back, refused or change.note)

    async def record(self, request: Request, action: str, target: str = "", **detail: Any) -> None:
        """Write a change that was made to the audit log."""
        await record_change(request, require_admin(request), action, target, detail)

    def back(self, request: Request, path: str, note: str = "") -> Response:
        """Redirect to `path`, below the dashboard, which shows the note of this key."""
        mark = "&" if "?" in path else "?"
        noted = f"{path}{mark}{urlencode({'note': note})}" if note else path
        return RedirectResponse(root_of(request) + noted, 303)

    def refuse(self, request: Request, refusal: ApiError) -> Response:
        """Answer with a page that says why not."""
        line, status = str(refusal), refusal.status
        answer = self.answer(request, "ops_refused.html", status, line=line, refused_with=status)
        answer.headers.update(refusal.headers)
        return saying(answer, line)

    def _navigation(self, request: Request) -> list[NavLink]:
        path, root = path_of(request).removeprefix(root_of(request)) or "/", root_of(request)
        shown = [page for page in _PAGES if page[0] != "/outbox" or self.state.outbox is not None]
        links = []
        for to, label in shown:
            inside = path.startswith(f"{to}/") if to != "/" else False
            current = "page" if path == to else "true" if inside else ""
            links.append(NavLink(label, root + to, current))
        return links


async def _refusal(request: Request, move: Awaitable[object]) -> str | None:
    """Await `move`; return the code of why the present state does not allow it, None if it does."""
    try:
        await move
    except HoldfastError as error:
        refusal = as_api_error(request, error)
        if refusal.status != _CONFLICT:
            raise
        return str(refusal.code)
    return None


def root_of(request: Request) -> str:
    """Return the path that the dashboard is mounted under; "" at the top."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def path_of(request: Request) -> str:
    """Return the path of the request as the browser knows it."""
    path = str(request.scope["path"])
    root = root_of(request)
    # A server that strips the prefix of a proxy reports it in `root_path` alone.
    return path if path.startswith(f"{root}/") or not root else root + path


def path_with_query(request: Request) -> str:
    """Return `path_of` with the query, but without the note that the page shows."""
    pairs = [(key, value) for key, value in request.query_params.multi_items() if key != "note"]
    return path_of(request) + (f"?{urlencode(pairs)}" if pairs else "")
