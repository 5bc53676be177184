"""Results of queries: pages of jobs, dead letters, counters; and the filter to query with.

Frozen values; times are epoch seconds.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.jobs.model import DeadLetterReason, Job, JobError, JobStatus


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that is not retried unless a person asks, with its last error."""

    job: Job
    reason: DeadLetterReason
    attempts_made: int
    last_error: JobError
    at: float


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters of one kind with the same code and normalised message.

    `example_id` and `newest_at` are of the one that failed last, `oldest_id` and `oldest_at` of the
    one that failed first.
    """

    kind: str
    code: str
    message: str
    count: int
    newest_at: float
    example_id: str
    oldest_at: float = 0.0
    oldest_id: str = ""


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Dead letters of all kinds with the same code and normalised message.

    `kinds` are by the number of their letters, `example_ids` are the newest and the oldest of each
    kind, `first_at` and `last_at` say when the first and the last of them failed.
    """

    code: str
    message: str
    count: int
    kinds: tuple[str, ...]
    first_at: float
    last_at: float
    example_ids: tuple[str, ...]


def error_groups(groups: Iterable[DeadLetterGroup]) -> tuple[ErrorGroup, ...]:
    """Return the groups of single kinds together, the largest first."""
    together: dict[tuple[str, str], list[DeadLetterGroup]] = {}
    for group in groups:
        together.setdefault((group.code, group.message), []).append(group)
    found = [
        ErrorGroup(
            code=code,
            message=message,
            count=sum(each.count for each in alike),
            kinds=tuple(each.kind for each in alike),
            first_at=min(each.oldest_at for each in alike),
            last_at=max(each.newest_at for each in alike),
            example_ids=tuple(
                dict.fromkeys(name for each in alike for name in (each.example_id, each.oldest_id))
            ),
        )
        for (code, message), alike in together.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.count))


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; a job must match every field that is set.

    `error_text` is a substring of the error message, `created_from` (included) and `created_to`
    (excluded) are epoch seconds, `error_group` is a normalised message. `text` is a substring of
    the id, the kind, the owner, the error message or the meta.
    """

    statuses: tuple[JobStatus, ...] = ()
    kinds: tuple[str, ...] = ()
    queue: str | None = None
    downstream: str | None = None
    owner: str | None = None
    id: str | None = None
    error_code: str | None = None
    error_text: str | None = None
    error_group: str | None = None
    min_attempts: int | None = None
    created_from: float | None = None
    created_to: float | None = None
    text: str | None = None


EVERY_JOB = JobFilter()
"""The filter that matches every job."""


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first, and the cursor of the next page; None on the last page."""

    jobs: tuple[Job, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class JobSearch:
    """What a search over a bounded number of jobs has found, newest first.

    Args:
        jobs: those that match.
        next_cursor: where to go on; None if there are no more.
        complete: False if the search stopped before the page was full: there may be more jobs that
            match, among older ones.
        searched_from: when the oldest job that was looked at was created, in epoch seconds; None if
            the search is complete.
    """

    jobs: tuple[Job, ...]
    next_cursor: str | None = None
    complete: bool = True
    searched_from: float | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterSearch:
    """What a search over a bounded number of dead letters has found, newest failure first.

    Args:
        letters: those that match.
        next_cursor: where to go on; None if there are no more.
        complete: False if the search stopped before the page was full: there may be more that
            match, among older ones.
        searched_from: when the oldest one that was looked at had failed, in epoch seconds; None if
            the search is complete.
    """

    letters: tuple[DeadLetter, ...]
    next_cursor: str | None = None
    complete: bool = True
    searched_from: float | None = None


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """Jobs of one kind in one lane, by status; finished ones until retention deletes them.

    Queued jobs are `scheduled` or `ready`; `ready` includes held jobs.
    """

    queue: str
    downstream: str | None
    kind: str
    uploaded: int = 0
    scheduled: int = 0
    ready: int = 0
    processing: int = 0
    complete: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How many jobs of `kind` ever ended in `status` after `attempts` attempts."""

    kind: str
    status: JobStatus
    attempts: int
    count: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The store's maintained counters; reading them scans no jobs.

    `totals` are monotonic: `refused_writes`, `rescued`, `manual_retries`, `timed_out`,
    `late_results`, `deleted`, and on a server `failed_folds`: how often these counters could not
    be folded. `oldest_ready_at` maps each queue to the time in epoch seconds since which its oldest
    ready job waits, and `oldest_ready_of` each downstream.
    """

    lanes: tuple[LaneCounts, ...]
    outcomes: tuple[OutcomeCounts, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    oldest_ready_at: Mapping[str, float] = field(default_factory=dict)
    dead_letters: int = 0
    oldest_ready_of: Mapping[str, float] = field(default_factory=dict)


_VARIABLE_PARTS = (
    (re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"https?://\S+"), "<url>"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "<value>"),
    (re.compile(r"\d+(\.\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)
_GROUP_LENGTH = 200


def normalise_error(message: str) -> str:
    """Return `message` with ids, URLs, quoted values and numbers replaced by placeholders.

    Messages of similar failures become equal; at most 200 characters.
    """
    for pattern, placeholder in _VARIABLE_PARTS:
        message = pattern.sub(placeholder, message)
    return message.strip()[:_GROUP_LENGTH].rstrip()
