"""What pages and operators look at: filters, pages of jobs, dead letters, counters.

Frozen values like those of `holdfast.jobs.model`; times are epoch seconds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.errors import ErrorCode
from holdfast.jobs.model import DeadLetterReason, Job, JobError, JobStatus


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that waits for a person, with what the person needs to decide."""

    job: Job
    reason: DeadLetterReason
    attempts_made: int
    last_error: JobError
    at: float


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters of one kind that failed alike: same code, same normalised message."""

    kind: str
    code: ErrorCode
    message: str
    count: int
    newest_at: float
    example_id: str


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; every field that is set narrows the choice.

    `error_text` is a part of the error message, `created_from` (included) and `created_to`
    (excluded) are epoch seconds, `error_group` is a normalised message.
    """

    statuses: tuple[JobStatus, ...] = ()
    kinds: tuple[str, ...] = ()
    queue: str | None = None
    downstream: str | None = None
    owner: str | None = None
    id: str | None = None
    error_code: ErrorCode | None = None
    error_text: str | None = None
    error_group: str | None = None
    min_attempts: int | None = None
    created_from: float | None = None
    created_to: float | None = None


EVERY_JOB = JobFilter()
"""The filter that lets every job through."""


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first, and where to go on: pass `next_cursor` back, None means the end."""

    jobs: tuple[Job, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """How many jobs of one kind in one lane stand where. `ready` is claimable, held or not.

    `counts` holds finished jobs that retention has not deleted. `scheduled` and `ready` together
    are the queued ones.
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
    """How many jobs of `kind` ever ended in `status` after `attempts` attempts. Never falls."""

    kind: str
    status: JobStatus
    attempts: int
    count: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The store's maintained counters, read without counting a row.

    `totals` are named sums that never fall: `refused_writes`, `rescued`, `manual_retries`,
    `timed_out`, `late_results`, `deleted`. `oldest_ready_at` is, by queue, when the job that has
    waited longest became ready, in epoch seconds.
    """

    lanes: tuple[LaneCounts, ...]
    outcomes: tuple[OutcomeCounts, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    oldest_ready_at: Mapping[str, float] = field(default_factory=dict)
    dead_letters: int = 0


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
    """Return `message` without what varies from job to job, so that like failures group.

    Ids, addresses, quoted values and numbers become place holders; at most 200 characters.
    """
    for pattern, placeholder in _VARIABLE_PARTS:
        message = pattern.sub(placeholder, message)
    return message.strip()[:_GROUP_LENGTH].rstrip()
