"""The values with which an app describes what it adds to a server; `ServedApp` returns them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.jobs.model import Job, JobStatus
from holdfast.outbox import MessageClaim


class FactFormat(StrEnum):
    """How pages show a fact."""

    TEXT = "text"
    BYTES = "bytes"
    """A number of bytes: 4.56 MB."""


@dataclass(frozen=True, slots=True)
class JobFact:
    """A fact that an app adds to its jobs, in their JSON and on the pages.

    Args:
        key: its name in the JSON, in camelCase.
        label: what people call it.
        format: how pages show it.
        in_rows: pages show it; False keeps it to the JSON.
        of_result: it describes the result, and pages show it there.
    """

    key: str
    label: str
    format: FactFormat = FactFormat.TEXT
    in_rows: bool = True
    of_result: bool = False


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What only its app knows of a job, for the API and the pages.

    Args:
        title: what pages call the job; None is its kind.
        values: the values of the app's `job_facts`, by key.
        note: a line that the pages show with a job that is complete.
        can_download: a result can be downloaded now.
        can_retry: a manual retry would be accepted, as far as the row alone says.
        expires_at: when its result is deleted, in epoch seconds; None where there is none.
    """

    title: str | None = None
    values: Mapping[str, str | float | None] = field(default_factory=dict)
    note: str = ""
    can_download: bool = False
    can_retry: bool = False
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """A file to send: `file` is open for reading; the server closes it."""

    file: BinaryIO
    size: int
    filename: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A process that runs beside the server, started again where it ends.

    Args:
        name: what logs call it.
        module: what is run, as `python -m module`.
        arguments: its command line.
        ready: a piece of the line on its standard output that says that it is ready.
        on_ready: called with that line, once for each start.
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    ready: str = "listening on"
    on_ready: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class MessageQueue:
    """A durable queue of the broker that an app's messages go to; a relay declares it.

    Args:
        name: its name, which is the type of the messages that go there.
        dead_letter_to: the queue for messages that are rejected.
        form: turns a message of the outbox into the one that the queue's consumers take, such as
            a call of a Celery task; None publishes it as it is. Without I/O.
    """

    name: str
    dead_letter_to: str | None = None
    form: Callable[[MessageClaim], MessageClaim] | None = None


@dataclass(frozen=True, slots=True)
class NavItem:
    """A page of an app's own, as the navigation of all pages shows it.

    Args:
        label: what it is called, in a word or two.
        path: where it is, such as `/documents`; what lies below it belongs to it.

    Raises:
        ValueError: the path does not begin with one slash, or is the front page's.
    """

    label: str
    path: str

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path.startswith("//") or self.path == "/":
            raise ValueError(f"path must begin with a slash and not be the front page's: {self!r}")


@dataclass(frozen=True, slots=True)
class PagePart:
    """What an app adds to the front page: a part above the rows, and its own wording.

    Args:
        title: what can be done there, in a few words.
        noun: what its jobs are called, in the plural.
        counted: what is counted, one and several: "1 file", "60 files".
        removal: a line that says what is deleted with a job, before it is.
        folder: holds `templates` and `static`; its files are served below `/static/APP/`.
        intake: the template of what stands above the rows.
        empty: the template that stands where the rows will be; None says only that there are none.
        modules: ES modules of `static` that the page loads.
        styles: style sheets of `static` that the page loads.
        statuses: words for statuses, by status; the common ones stand for what is left out.
        notes: lines that a redirect to `/?note=KEY` shows, by key.
        shortcuts: what its modules do at a key, for the page's list of keys.
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
    shortcuts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    counted: tuple[str, str] = ("job", "jobs")
    removal: str = "Its history is deleted too."


def meta_of(job: Job) -> dict[str, Any]:
    """Return a job's `meta` as a dict; empty where there is none."""
    value = json.loads(job.meta) if job.meta else {}
    return value if isinstance(value, dict) else {}
