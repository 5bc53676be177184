"""What an app may add to a server beside its jobs: routes, a page, downloads, processes beside it.

A plain `App` is served as it is. `ServedApp` is for one that wants more; every method has a
default, so that it says only what is special about it.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fastapi import APIRouter

from holdfast.jobs.declare.app import App
from holdfast.jobs.model import Job, JobStatus

if TYPE_CHECKING:
    from holdfast.http.site import Site


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What only its app knows of a job, for the API and the pages.

    Args:
        filename: the name of the file that it is about, as its owner called it.
        mapping: the way in which the file is turned into another.
        bytes: the size of the file.
        can_download: a result can be downloaded now.
        can_retry: a person's retry would be taken, as far as can be told without looking closely.
    """

    filename: str | None = None
    mapping: str | None = None
    bytes: int | None = None
    can_download: bool = False
    can_retry: bool = False


@dataclass(frozen=True, slots=True)
class Download:
    """A file to send: `file` is open for reading and closed by whoever sends it."""

    file: BinaryIO
    size: int
    filename: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Companion:
    """A process that runs beside the server, started again where it ends.

    Args:
        name: what logs call it.
        module: what is run, as `python -m module`.
        arguments: its command line.
        ready: a piece of the line on its standard output that says that it is ready.
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    ready: str = "listening on"


@dataclass(frozen=True, slots=True)
class PagePart:
    """What an app adds to the front page: what stands above the rows, and its own words.

    Args:
        title: what can be done there, in a few words.
        noun: what its jobs are called, in the plural.
        folder: holds `templates` and `static`; its files are served below `/static/APP/`.
        intake: the template of what stands above the rows.
        empty: the template that stands where the rows will be; None says only that there are none.
        modules: ES modules of `static` that the page loads.
        styles: style sheets of `static` that the page loads.
        statuses: words for statuses, by status; the common ones stand for what is left out.
        notes: lines that a redirect to `/?note=KEY` shows, by key.
        values: handed to the templates.
    """

    title: str
    noun: str
    folder: Path
    intake: str
    empty: str | None = None
    modules: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    statuses: Mapping[JobStatus, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


class ServedApp:
    """An app and what it adds to a server.

    Args:
        app: declares its jobs.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    @property
    def name(self) -> str:
        """The app's name."""
        return self.app.name

    def routes(self, site: "Site") -> APIRouter | None:
        """Return the routes that it adds; they are asked for once, when the server is put together.

        Paths below `/api/` are in the OpenAPI document. `Owner` as a parameter's annotation hands
        a route the session's owner.
        """
        del site
        return None

    def page(self) -> PagePart | None:
        """Return what it adds to the front page."""
        return None

    def running(self, site: "Site") -> AbstractAsyncContextManager[Any]:
        """Return what is open for as long as the server runs."""
        del site
        return nullcontext()

    def companions(self) -> Sequence[Companion]:
        """Return the processes that run beside the server."""
        return ()

    def facts(self, job: Job, now: float) -> JobFacts:
        """Return what is known of `job` at `now`, in epoch seconds; without I/O: it is a row's."""
        del now
        return JobFacts(can_retry=job.status is JobStatus.FAILED)

    def download(self, job: Job) -> Download | None:
        """Open the result of a complete job; None where it is gone. Called in a thread."""
        del job
        return None


def meta_of(job: Job) -> dict[str, Any]:
    """Return a job's `meta` as a dict; empty where there is none."""
    value = json.loads(job.meta) if job.meta else {}
    return value if isinstance(value, dict) else {}
