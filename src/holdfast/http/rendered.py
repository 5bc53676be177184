"""Jobs and their attempts as pages show them; `AppPages` returns these to apps."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Look(StrEnum):
    """What a row looks like: each has a shape and a colour of its own."""

    QUEUED = "queued"
    WAITING = "waiting"
    """Between two attempts, or before a first one that is to come later."""
    HELD = "held"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact of a job, as the page shows it."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class RenderedRow:
    """One job, ready to be written down. Times are epoch seconds of the store.

    Args:
        label: its status in a word or two.
        attempts: "Attempt 2 of 3", or nothing.
        until: when its next attempt begins, if that is still to come.
        until_words: what stands before the time that is left until then.
        line: what else there is to say: why it waits, what went wrong.
        can_expedite: its next attempt can begin now.
        results: facts of its result.
        waits_for: the downstream that holds it, or nothing.
        last_error: why its last attempt failed, where `line` says something else.
        since: when its present attempt began, while that runs.
        took: seconds from the upload to the result.
        expires_at: when its result is deleted.
    """

    id: str
    name: str
    facts: tuple[ShownFact, ...]
    created_at: float
    look: Look
    label: str
    attempts: str
    until: float | None
    until_words: str
    line: str
    progress: float | None
    can_download: bool
    can_retry: bool
    can_expedite: bool
    can_cancel: bool
    can_remove: bool = False
    results: tuple[ShownFact, ...] = ()
    waits_for: str = ""
    last_error: str = ""
    since: float | None = None
    took: float | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt, with the wait that followed it; or a manual action, which `title` names.

    `at` is epoch seconds; `took` and `wait` are seconds.
    """

    look: str
    title: str
    at: float
    outcome: str = ""
    error: str = ""
    code: str = ""
    took: float | None = None
    wait: float | None = None
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class RenderedJobs:
    """Rows of jobs by their ids. `now` is the store's clock, epoch seconds."""

    rows: Mapping[str, RenderedRow]
    now: float
