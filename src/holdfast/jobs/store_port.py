"""What a store must do: small protocols by role, and the values and errors they use.

`holdfast.testing.conformance` tests these rules on every store. For all methods:

- Each write is one transaction: durable when the method returns, or not done at all.
- `now` is epoch seconds for tests; None, used in production, is the store's own clock.
- An unknown id is not an error: the result is None, an empty tuple or `MISSING`.
- A store that cannot be reached, is locked or is full raises a `StoreUnavailable`, nothing else;
  the caller waits and calls again. Every write is idempotent (enqueue by id, the others by token,
  version or status), so it may be repeated when its result is unknown.
- Await methods on an event loop that opened the store; those of `Heartbeats` on the loop of the
  heartbeat thread.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from holdfast.jobs.control_port import ControlStore, FleetStore
from holdfast.jobs.database_port import DatabaseStore
from holdfast.jobs.downstreams.record import DownstreamRecord, DownstreamSettings
from holdfast.jobs.heartbeat_port import Heartbeats
from holdfast.jobs.intake_port import IntakeStore
from holdfast.jobs.key_port import KeyStore
from holdfast.jobs.model import Enqueued, Finished, JobError, Lease, NewJob
from holdfast.jobs.operations_port import OperationsStore
from holdfast.jobs.owner_port import OwnerStore
from holdfast.jobs.periodic_port import PeriodicStore, ScheduleRecord
from holdfast.jobs.query_port import QueryStore
from holdfast.jobs.rate_port import RateStore
from holdfast.jobs.store_values import (
    BadAddress,
    Change,
    ClaimRequest,
    ConstraintViolated,
    Deleted,
    Extended,
    FailedJob,
    Leadership,
    Overruled,
    Refusal,
    Refused,
    Rescued,
    RetentionRule,
    StoreBusy,
    StoreClosed,
    StoreDiskError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
    TickResult,
)
from holdfast.jobs.transaction_port import TransactionStore
from holdfast.jobs.webhook_port import WebhookStore

__all__ = [
    "BadAddress",
    "Change",
    "ClaimRequest",
    "ConstraintViolated",
    "ControlStore",
    "DatabaseStore",
    "Deleted",
    "DownstreamStore",
    "EnqueueStore",
    "Extended",
    "FailedJob",
    "FleetStore",
    "Heartbeats",
    "KeyStore",
    "Leadership",
    "MaintenanceStore",
    "OperationsStore",
    "Overruled",
    "OwnerStore",
    "PeriodicStore",
    "QueryStore",
    "RateStore",
    "Refusal",
    "Refused",
    "Rescued",
    "RetentionRule",
    "ScheduleRecord",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreDiskError",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoreUnusable",
    "TickResult",
    "WorkerStore",
]


class EnqueueStore(Protocol):
    """Create jobs."""

    async def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        most: Mapping[str, int] | None = None,
        now: float | None = None,
    ) -> tuple[Enqueued, ...]:
        """Create `jobs`, all or none, and return one answer for each, in the same order.

        If another job has the id, or an unfinished or complete job has the same
        `(kind, dedup_key)`, the job is not created and the answer has that job's id. This holds
        within one call and with any number of concurrent callers. By a job's `dedup_rule` fewer
        twins count: one that does not count loses its key to the job that is created. All jobs of
        one call with the same key have the same rule.

        `most` maps owners to how many unfinished jobs they may have. It holds with any number of
        concurrent calls that pass it for the same owner; one that creates none is not refused.

        Raises:
            TooManyJobs: it would have more; no job was created.
        """
        ...

    async def submit(self, job_id: str, *, now: float | None = None) -> Change:
        """Move an uploaded job to queued: DONE, REFUSED or MISSING."""
        ...

    async def reject(self, job_id: str, error: JobError, *, now: float | None = None) -> Change:
        """Move an uploaded job to failed, not a dead letter: DONE, REFUSED or MISSING."""
        ...


class WorkerStore(Protocol):
    """Serve a worker."""

    ticks_apart: bool
    """Whether another process executes the tick, so that this process can do other work."""

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished] = (),
        claim: ClaimRequest | None = None,
        *,
        now: float | None = None,
    ) -> TickResult:
        """Write the reports `finished` and claim the next jobs, in one transaction.

        Finish: each outcome is a compare-and-set on `(id, processing, token)` that must change
        exactly one row; otherwise it is refused and counted. Attempt, event and counters are
        written with it, and the verdicts of accepted reports update their downstreams. The `jobs`
        of a report are created if its job becomes complete, as `enqueue` creates them.

        Claim: due jobs become ready; then up to `limit` ready jobs of the request's kinds and
        queues are claimed, one lane after the other in turn, within a lane by priority (higher
        first) and then by `ready_at`. Lanes of held downstreams, and kinds, downstreams and owners
        at their limit, are skipped in time that does not grow with the number of their jobs. Each
        claim raises the token and counts the attempt.
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
        """Store a job's `progress`, from 0 to 1, under its lease; return False if refused.

        `record` also writes an event for the streams of changes. A refusal is counted if the lease
        was taken, as for `extend`.
        """
        ...

    async def wait_for_work(self, mark: int, timeout: float) -> bool:
        """Wait until there may be new work since the tick that returned `mark`; return True.

        A hint: True may be wrong, and False after `timeout` seconds does not mean that there is no
        work. Jobs enqueued by this process are never missed.
        """
        ...

    async def leases(self, worker_id: str) -> tuple[Lease, ...]:
        """Return the leases of all running jobs in a worker's name."""
        ...

    def heartbeats(self, kinds: Sequence[str] | None = None) -> Heartbeats:
        """Return the port of a heartbeat thread, used on that thread's event loop.

        `kinds` are those that its worker can run; they are registered with it.
        """
        ...


class DownstreamStore(Protocol):
    """Keep the durable records of downstreams."""

    async def declare_downstreams(
        self, settings: Sequence[DownstreamSettings], *, now: float | None = None
    ) -> None:
        """Create missing records and update the settings of existing ones.

        The breaker's state is kept. Jobs of an undeclared downstream run without breaker or limits.
        A record loses its parent, for ever, by a declaration with another parent or with none.
        """
        ...

    async def downstreams(self) -> tuple[DownstreamRecord, ...]:
        """Return all records, by name."""
        ...

    async def troubled_downstreams(self) -> tuple[DownstreamRecord, ...]:
        """Return the records of breakers that are open or half open, by name.

        Its cost does not grow with the number of records that are closed.
        """
        ...

    async def downstream(self, name: str) -> DownstreamRecord | None:
        """Return one record."""
        ...

    async def write_downstream(
        self, record: DownstreamRecord, *, now: float | None = None
    ) -> DownstreamRecord | None:
        """Store `record` if the stored version is still `record.version`.

        Return it with its new version, or None if another write came first: read it again. For
        people and probes; the verdicts of workers are written by their tick.
        """
        ...

    async def note_downstream_use(self, name: str, *, now: float | None = None) -> None:
        """Note that a downstream is used now, by a call outside of jobs.

        Nothing is written if a use was noted within the hour before, nor for a record without a
        parent. Declaring a record, writing it and deleting its finished jobs note its use too.
        """
        ...

    async def delete_unused_downstreams(
        self, name: str, *, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete up to `limit` records that keys of downstream `name` have made and nothing uses.

        Such a record has the parent `name`, no job is stored for it, not even a finished one, and
        its last use is two days ago. One is kept whose breaker looks at a longer time, is open and
        its `open_until` has not come, or is held by a person. The worker that claims a later job
        declares it again. Returns how many were deleted; after 0 the rest, if there is any, can
        wait for the next round.
        """
        ...


class MaintenanceStore(Protocol):
    """Maintain the jobs, in batches; every method is safe to run concurrently."""

    async def lead(
        self, name: str, holder: str, seconds: float, *, now: float | None = None
    ) -> Leadership | None:
        """Become or stay the leader for `seconds`; None if another holder is the leader.

        A registered worker that is dead leads no longer.
        """
        ...

    async def resign(self, name: str, holder: str) -> bool:
        """Release the leadership; False if `holder` did not have it."""
        ...

    async def rescue(self, *, limit: int = 500, now: float | None = None) -> Rescued:
        """Rescue up to `limit` jobs whose leases have expired or whose workers are dead.

        They become queued and ready; dead letters (`LEASE_LOST`) if no attempt is left; cancelled
        if that was requested. The lost attempt stays counted. A job past its deadline is left to
        `expire_deadlines`. Dead workers without jobs, and leaderships that expired an hour ago, are
        forgotten.
        """
        ...

    async def expire_deadlines(
        self, *, limit: int = 500, now: float | None = None
    ) -> tuple[FailedJob, ...]:
        """Fail up to `limit` unfinished jobs past their deadlines with `TIMEOUT`; return them."""
        ...

    async def declare_dead_letters(self, kinds: Mapping[str, bool]) -> int:
        """Store for each of `kinds` whether its jobs can become dead letters; return the changes.

        It holds for jobs that the store itself ends, not for what workers report. A kind that was
        never declared has dead letters. Jobs that have failed stay as they are.
        """
        ...

    async def unknown_kinds(self, worker_id: str) -> Mapping[str, int]:
        """Return the kinds of waiting jobs that no registered worker knows: how many wait, by kind.

        Reads counters only. Empty if `worker_id`, the worker that asks, is not registered, or if
        some worker did not say what it can run: then it cannot be known.
        """
        ...

    async def store_late_result(
        self, job_id: str, token: int, result: str | None, *, now: float | None = None
    ) -> bool:
        """Store a result that arrived after `TIMEOUT`, once per token; False if it is not late.

        A tick does this itself for a late `Completed` with the job's current token.
        """
        ...

    async def delete_finished(
        self, rule: RetentionRule, *, limit: int = 500, now: float | None = None
    ) -> tuple[Deleted, ...]:
        """Delete up to `limit` jobs that match `rule`, and their history, oldest first."""
        ...


class Store(
    EnqueueStore, WorkerStore, TransactionStore, ControlStore, FleetStore, QueryStore,
    DownstreamStore, DatabaseStore, KeyStore, IntakeStore, WebhookStore,
    MaintenanceStore, OperationsStore, OwnerStore, PeriodicStore, RateStore, Protocol,
):  # fmt: skip
    """All roles together; `async with` opens and closes it."""

    address: str
    """The database for people, without account and password."""

    async def ping(self) -> float:
        """Return the store's time in epoch seconds, or raise `StoreUnavailable`."""
        ...

    async def schema_version(self) -> int:
        """Return the number of the last applied migration."""
        ...

    async def open(self) -> None:
        """Connect, and migrate if the store does that itself.

        Raises:
            StoreUnusable: the schema is newer than this version of Holdfast, or the database
                cannot be used; the message says what to do.
        """
        ...

    async def close(self) -> None:
        """Finish running calls and disconnect. Closing twice is harmless."""
        ...

    async def __aenter__(self) -> Self:
        """Open."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        ...
