"""What a store must do, as small protocols by role, and what it may raise.

The promises are spelled out here once and proven for every store by
`holdfast.testing.conformance`. Rules that hold for all methods:

- Each method that writes is one transaction: all of it is durable when the method returns, or none
  of it happened.
- `now` is epoch seconds for tests; None, the value used in production, is the store's own clock.
- Ids that are unknown are no error: the answer says so (None, an empty tuple, `MISSING`).
- A store that cannot be reached, is locked, or has no room raises a `StoreUnavailable`, nothing
  else; the caller waits and calls again. After a `StoreUnavailable` from a write it is not known
  whether it happened: every write here can be repeated without harm (enqueue by id, the rest by
  token, version or status).
- Methods may be awaited from any event loop on which the store was opened; `Heartbeats` from one
  of its own, in another thread.
"""

from collections.abc import Sequence
from typing import Protocol, Self

from holdfast.jobs.downstreams.record import DownstreamRecord, DownstreamSettings
from holdfast.jobs.model import (
    Attempt,
    Enqueued,
    Finished,
    Job,
    JobError,
    JobEvent,
    LateResult,
    Lease,
    NewJob,
)
from holdfast.jobs.store_values import (
    Change,
    ClaimRequest,
    Deleted,
    Extended,
    Leadership,
    Overruled,
    Refusal,
    Refused,
    Rescued,
    RetentionRule,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
    TickResult,
)
from holdfast.jobs.views import EVERY_JOB, DeadLetter, DeadLetterGroup, JobFilter, Page, Stats

__all__ = [
    "Change",
    "ClaimRequest",
    "Controlling",
    "Deleted",
    "Downstreams",
    "Enqueuing",
    "Extended",
    "Heartbeats",
    "Leadership",
    "Maintaining",
    "Overruled",
    "Reading",
    "Refusal",
    "Refused",
    "Rescued",
    "RetentionRule",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoreUnusable",
    "TickResult",
    "Working",
]


class Enqueuing(Protocol):
    """Take jobs in."""

    async def enqueue(
        self, jobs: Sequence[NewJob], *, now: float | None = None
    ) -> tuple[Enqueued, ...]:
        """Create `jobs`, all or none, and return what became of each, in the same order.

        A job whose id is taken, or whose `(kind, dedup_key)` belongs to a job that is unfinished
        or complete, is not created: the answer carries that job's id. This holds within one call
        and under any number of concurrent callers.
        """
        ...

    async def submit(self, job_id: str, *, now: float | None = None) -> Change:
        """Move an uploaded job to queued: DONE, REFUSED or MISSING."""
        ...

    async def reject(self, job_id: str, error: JobError, *, now: float | None = None) -> Change:
        """Move an uploaded job to failed, not a dead letter: DONE, REFUSED or MISSING."""
        ...


class Working(Protocol):
    """Serve a worker."""

    ticks_apart: bool
    """Whether another process works on a tick, so that this one is free meanwhile."""

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished] = (),
        claim: ClaimRequest | None = None,
        *,
        now: float | None = None,
    ) -> TickResult:
        """Record what `finished` and claim what comes next, in one transaction.

        Finish: each outcome is a compare-and-set on `(id, processing, token)` that must touch
        exactly one row; else it is refused, counted, and changes nothing. Attempt, event and
        counters are written with it, and accepted reports are judged on their downstreams.

        Claim: due jobs are promoted; then up to `limit` ready jobs of the request's kinds are
        taken from the request's queues, lane by lane in turn, within a lane by priority (higher
        first) and then by `ready_at`. Lanes of held downstreams, kinds at their limit and
        downstreams without room are passed over, in time that does not grow with what waits in
        them. Each claim raises the token and counts the attempt.
        """
        ...

    async def progress(
        self,
        lease: Lease,
        progress: float | None,
        note: str | None = None,
        *,
        record: bool = False,
        now: float | None = None,
    ) -> bool:
        """Store how far a job is (`progress` from 0 to 1) under its lease; False: refused.

        `record` also writes an event, which the pages' streams then carry. A refusal is counted
        where the lease was taken, as for `extend`.
        """
        ...

    async def wait_for_work(self, mark: int, timeout: float) -> bool:
        """Wait until there may be work since the tick that returned `mark`: True.

        A hint: it may come for nothing, and False after `timeout` seconds does not prove that
        there is no work. What this process enqueues is never missed.
        """
        ...

    def heartbeats(self) -> "Heartbeats":
        """Return the part that a heartbeat thread uses, on its own event loop."""
        ...


class Heartbeats(Protocol):
    """Keep leases alive, from a thread and an event loop of its own."""

    async def extend(
        self, leases: Sequence[Lease], lease_seconds: float, *, now: float | None = None
    ) -> Extended:
        """Let all `leases` last until `lease_seconds` from now, in one statement.

        A lease that has run out but was not taken yet is still extended: its job is still this
        worker's. One that was taken is lost, and the write counted as refused; one that the
        worker's own report has just ended is lost too, and no refusal.
        """
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class Controlling(Protocol):
    """Do what a person asks for."""

    async def cancel(self, job_id: str, *, now: float | None = None) -> Change:
        """Cancel a job: DONE at once where nobody runs it, REQUESTED where a worker does.

        A job that its worker completes before it hears of it is complete. REFUSED where it is
        finished. Asking again answers the same.
        """
        ...

    async def expedite(self, job_id: str, *, now: float | None = None) -> Change:
        """Let a queued job that waits for its time start at once: DONE, REFUSED or MISSING.

        Nothing is counted. One that is ready already stays as it is: DONE.
        """
        ...

    async def retry(
        self, job_ids: Sequence[str], *, now: float | None = None
    ) -> tuple[Change, ...]:
        """Put failed jobs back in the queue: DONE, REFUSED, TWIN or MISSING for each, in order.

        Attempts start anew, history is kept, `manual_retry_count` rises, the token does not fall,
        and a deadline that has passed is lifted: the person decided.
        """
        ...

    async def discard(self, job_ids: Sequence[str], *, now: float | None = None) -> int:
        """Take jobs out of the dead letters without running them; return how many there were.

        They stay failed until retention deletes them.
        """
        ...


class Reading(Protocol):
    """Answer questions. Reads see everything that was acknowledged before they were asked."""

    async def get(self, job_id: str, *, now: float | None = None) -> Job | None:
        """Return one job with its arguments."""
        ...

    async def list_jobs(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
        now: float | None = None,
    ) -> Page:
        """Return jobs without arguments, newest first; a job is never listed twice in one walk.

        Raises:
            ValueError: `cursor` is none of this store's.
        """
        ...

    async def events(self, job_id: str) -> tuple[JobEvent, ...]:
        """Return a job's history, oldest first."""
        ...

    async def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        """Return a job's attempts, oldest first, the one under way included."""
        ...

    async def late_results(self, job_id: str) -> tuple[LateResult, ...]:
        """Return what arrived after the deadline, oldest first."""
        ...

    async def changes_since(
        self, sequence: int, *, owner: str | None = None, limit: int = 500
    ) -> tuple[JobEvent, ...]:
        """Return events after `sequence`, in its order; those of `owner`, where one is given.

        Walking on from the last one's sequence misses nothing: an event is not shown before
        everything with a lower sequence is either shown or can never appear.
        """
        ...

    async def last_sequence(self) -> int:
        """Return the sequence to start a stream of changes from: nothing before now."""
        ...

    async def wait_for_changes(self, sequence: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there may be events after `sequence`. A hint."""
        ...

    async def dead_letters(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
    ) -> tuple[tuple[DeadLetter, ...], str | None]:
        """Return dead letters, newest failure first, and the cursor to go on with.

        Raises:
            ValueError: `cursor` is none of this store's.
        """
        ...

    async def dead_letter_groups(self) -> tuple[DeadLetterGroup, ...]:
        """Return the dead letters grouped by kind, code and normalised message, largest first."""
        ...

    async def stats(self) -> Stats:
        """Return the maintained counters."""
        ...


class Downstreams(Protocol):
    """Keep the durable records of downstreams."""

    async def declare_downstreams(
        self, settings: Sequence[DownstreamSettings], *, now: float | None = None
    ) -> None:
        """Create the records that are missing and bring the settings of the others up to date.

        What a breaker knows is kept. A job of a downstream that was never declared runs without
        breaker or limits.
        """
        ...

    async def downstreams(self) -> tuple[DownstreamRecord, ...]:
        """Return all records, by name."""
        ...

    async def downstream(self, name: str) -> DownstreamRecord | None:
        """Return one record."""
        ...

    async def write_downstream(
        self, record: DownstreamRecord, *, now: float | None = None
    ) -> DownstreamRecord | None:
        """Store `record` where the version stored is still `record.version`.

        Return it with its new version, or None where another write came first: read it again.
        This serves what a person or a probe decides; workers' verdicts go with their tick.
        """
        ...


class Maintaining(Protocol):
    """Do the chores, each in batches, each safe to run twice at once."""

    async def lead(
        self, name: str, holder: str, seconds: float, *, now: float | None = None
    ) -> Leadership | None:
        """Become or stay the leader for `seconds`; None where another holds it still."""
        ...

    async def resign(self, name: str, holder: str) -> bool:
        """Give the leadership up; False where `holder` did not have it."""
        ...

    async def rescue(self, *, limit: int = 500, now: float | None = None) -> Rescued:
        """Take back up to `limit` jobs whose leases have run out.

        Back to queued and ready at once; a dead letter (`LEASE_LOST`) where no attempt is left;
        cancelled where that was asked for. The lost attempt stays counted.
        """
        ...

    async def expire_deadlines(
        self, *, limit: int = 500, now: float | None = None
    ) -> tuple[str, ...]:
        """Fail up to `limit` unfinished jobs past their deadline with `TIMEOUT`; return ids."""
        ...

    async def store_late_result(
        self, job_id: str, token: int, result: str | None, *, now: float | None = None
    ) -> bool:
        """Keep a result that came after `TIMEOUT`, once a token; False where it is not late.

        A tick does this by itself for a `Completed` that comes too late under its own token.
        """
        ...

    async def delete_finished(
        self, rule: RetentionRule, *, limit: int = 500, now: float | None = None
    ) -> tuple[Deleted, ...]:
        """Delete up to `limit` jobs that `rule` lets go, with all their history, oldest first."""
        ...


class Store(Enqueuing, Working, Controlling, Reading, Downstreams, Maintaining, Protocol):
    """All of it, and a life of its own: `async with` opens and closes."""

    async def ping(self) -> float:
        """Answer with the store's clock, in epoch seconds, or raise `StoreUnavailable`."""
        ...

    async def schema_version(self) -> int:
        """Return the number of the last migration that was applied."""
        ...

    async def open(self) -> None:
        """Connect, and migrate where the store does that by itself.

        Raises:
            StoreUnusable: the schema is newer than this version of Holdfast, or the database
                cannot be used; the message says what to do.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun and let go. Closing twice is harmless."""
        ...

    async def __aenter__(self) -> Self:
        """Open."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        ...
