"""What a store does for operators: the audit log, runs over dead letters, counters over time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from holdfast.jobs.model import JobStatus


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that a person made.

    Args:
        at: when, in epoch seconds.
        who: the name of the token that was used.
        role: what that token allows, such as `full`.
        action: what was done, such as `downstreams.reset`.
        target: to what, such as the name of a downstream or the id of a job.
        detail: what else is known of it.
    """

    at: float
    who: str
    role: str
    action: str
    target: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, newest first, and the cursor of the next page; None on the last page."""

    entries: tuple[AuditEntry, ...]
    next_cursor: str | None = None


class RunAction(StrEnum):
    """What a run does to dead letters."""

    REQUEUE = "requeue"
    DISCARD = "discard"


class RunState(StrEnum):
    """How far a run is."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    """Someone asked it to stop."""
    FAILED = "failed"
    """It ended with an error, or the process that worked on it has died."""


@dataclass(frozen=True, slots=True)
class DeadLetterRun:
    """A run over all dead letters that match a filter.

    Args:
        id: its id.
        action: what is done to them.
        filter: which ones: the fields of a `JobFilter` that are set.
        who: the name of the token that began it.
        rate: most jobs per second; None sets no limit.
        total: how many matched when it began.
        started_at: epoch seconds.
        state: how far it is.
        matched: how many it has looked at.
        done: how many of them it has requeued or discarded.
        skipped: how many it has not, by reason.
        stop_requested: someone asked it to stop.
        updated_at: when the process that works on it last wrote, in epoch seconds.
    """

    id: str
    action: RunAction
    filter: Mapping[str, Any]
    who: str
    rate: float | None
    total: int
    started_at: float
    state: RunState = RunState.RUNNING
    matched: int = 0
    done: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    stop_requested: bool = False
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True)
class CounterMark:
    """The counters as they were at a time.

    Args:
        at: epoch seconds.
        outcomes: how many jobs had ever ended, by kind, status and number of attempts.
        ready: how many jobs were ready, by queue.
    """

    at: float
    outcomes: tuple[tuple[str, str, int, int], ...] = ()
    ready: Mapping[str, int] = field(default_factory=dict)


ChooseMarks = Callable[[Sequence[float]], Collection[float]]
"""Takes the times of marks, oldest first, and returns those of the marks that are needed."""


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job that has ended, for figures about times. Times are epoch seconds.

    `started_at` is the start of its first attempt, `last_attempt_at` that of its last one.
    """

    kind: str
    downstream: str | None
    status: JobStatus
    attempts: int
    created_at: float
    started_at: float
    last_attempt_at: float
    finished_at: float


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """How many attempts a worker has ended of late, and how many seconds these ran."""

    worker_id: str
    attempts: int
    seconds: float


class OperationsStore(Protocol):
    """Keep what operators did and what they look at."""

    async def add_audit(self, entry: AuditEntry) -> None:
        """Append `entry` to the audit log."""
        ...

    async def audit(self, *, cursor: str | None = None, limit: int = 50) -> AuditPage:
        """Return the audit log, newest entries first.

        Raises:
            ValueError: `cursor` is not valid.
        """
        ...

    async def trim_audit(
        self, *, max_age: float, max_count: int, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete up to `limit` of the oldest entries; return how many.

        Those that are older than `max_age` seconds, and those before the newest `max_count`.
        """
        ...

    async def begin_run(self, run: DeadLetterRun, *, stale_after: float) -> bool:
        """Store a new run at its `started_at`; False if another one is running.

        One that was not updated for `stale_after` seconds is not running: it becomes failed. Those
        of 90 days ago are deleted.
        """
        ...

    async def update_run(self, run: DeadLetterRun, *, now: float | None = None) -> bool:
        """Store how far a run is; False if it should end: someone asked, or it was given up."""
        ...

    async def request_run_stop(self) -> bool:
        """Ask the run that is running to stop; False if there is none."""
        ...

    async def runs(self, *, limit: int = 20) -> tuple[DeadLetterRun, ...]:
        """Return runs, the one that began last first."""
        ...

    async def add_mark(self, mark: CounterMark, *, keep_from: float) -> None:
        """Store `mark`, and delete those before `keep_from`, in epoch seconds."""
        ...

    async def marks(
        self, since: float, *, choose: ChooseMarks | None = None
    ) -> tuple[CounterMark, ...]:
        """Return the marks from `since` on, in epoch seconds, oldest first.

        With `choose` come those whose times it chooses, and no others are decoded.
        """
        ...

    async def finished_jobs(self, *, limit: int = 1000) -> tuple[FinishedJob, ...]:
        """Return up to `limit` of the jobs that ended last and have run, newest end first.

        Its cost does not grow with the number of jobs: it reads the newest part of the history.
        """
        ...

    async def worker_loads(self, since: float) -> tuple[WorkerLoad, ...]:
        """Return what workers have done since then, in epoch seconds, by worker.

        It reads the newest part of the history only, so a busy fleet's figures may be too low.
        """
        ...
