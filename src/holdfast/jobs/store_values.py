"""Arguments, results and exceptions of a store's methods.

The methods are in `holdfast.jobs.store_port`, which also exports every name of this file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.model import Claim, JobStatus, Lease
from holdfast.jobs.owner_limits import NO_LIMITS, OwnerLimits


class StoreError(HoldfastError):
    """Base class of the exceptions of a store."""

    code = ErrorCode.IO_ERROR


class StoreUnavailable(StoreError):
    """The store is unavailable at the moment; wait and try again."""


class StoreBusy(StoreUnavailable):
    """Other work, mostly of another process, keeps the store or a part of it locked."""


class StoreFull(StoreUnavailable):
    """The disk of the store is full."""


class StoreDiskError(StoreUnavailable):
    """The disk of the store fails to read or write."""


class StoreUnusable(StoreError):
    """The store cannot be used: wrong version, newer schema, bad URL. Do not retry."""

    code = ErrorCode.INVALID_STATE


class BadAddress(StoreUnusable):
    """The address of the store cannot be one."""


class TransactionTooLong(StoreError):
    """A transaction held the store's only write lock for too long and was rolled back."""


class ConstraintViolated(StoreError):
    """A row breaks a constraint of its table, such as a unique key. Do not retry."""

    code = ErrorCode.INVALID_STATE


class StoreClosed(StoreError):
    """The store was closed by its owner."""

    code = ErrorCode.INVALID_STATE


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Which jobs a worker asks for, and how many.

    Args:
        limit: most jobs to claim.
        queues: the queues it serves.
        kinds: the kinds it can run, each with its fleet-wide concurrency limit or None.
        lease_seconds: how long the leases last unless they are extended.
        aliases: earlier names among `kinds`, each with the name whose limit it shares.
        owner_limits: the limits of owners who have none of their own in the store.
        with_lost_workers: the claims say which jobs have lost a worker.
    """

    limit: int
    queues: tuple[str, ...]
    kinds: Mapping[str, int | None]
    lease_seconds: float = 300.0
    aliases: Mapping[str, str] = field(default_factory=dict)
    owner_limits: OwnerLimits = NO_LIMITS
    with_lost_workers: bool = False

    def limited_name(self, kind: str) -> str:
        """Return the name under which the running jobs of `kind` are counted."""
        return self.aliases.get(kind, kind)

    def names_counted_as(self, name: str) -> tuple[str, ...]:
        """Return the kinds whose running jobs count towards the limit of `name`."""
        return (name, *(alias for alias, kind in self.aliases.items() if kind == name))


class Refusal(StrEnum):
    """Why a worker's write was refused."""

    STALE = "stale"
    """The worker no longer has the lease: the job was rescued, timed out or cancelled."""
    LATE = "late"
    """The deadline had passed: a result was stored as a late result, the status is unchanged."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused report. Stale ones are counted in `refused_writes`."""

    lease: Lease
    reason: Refusal


@dataclass(frozen=True, slots=True)
class Overruled:
    """An accepted report after which the job has another status than its outcome says.

    `Completed` after the deadline: FAILED (`TIMEOUT`), with a late result. `Retry` or `Released`
    after a cancel request: CANCELLED. `Retry` without an attempt left: FAILED, a dead letter.
    """

    lease: Lease
    status: JobStatus


@dataclass(frozen=True, slots=True)
class TickResult:
    """The result of a tick.

    Args:
        claims: the attempts to run now.
        refused: reports that were refused.
        overruled: reports whose jobs have another status than the outcome says.
        moved: downstream records whose breaker changed its state in this tick.
        timed_out: jobs that the claim found past their deadlines and failed with `TIMEOUT`: their
            ids, and whether they are dead letters.
        wake_at: when the next job becomes claimable, in epoch seconds; None if unknown.
        mark: the argument of `wait_for_work`.
        now: the store's time of this tick, in epoch seconds.
        claim_lost: the reports are stored, but the answer to the claim was lost: jobs may have
            been claimed that are not in `claims`.
    """

    claims: tuple[Claim, ...]
    refused: tuple[Refused, ...]
    overruled: tuple[Overruled, ...]
    moved: tuple[DownstreamRecord, ...]
    timed_out: tuple["FailedJob", ...]
    wake_at: float | None
    mark: int
    now: float
    claim_lost: bool = False


@dataclass(frozen=True, slots=True)
class Extended:
    """The result of an extension: lost leases, and ids of jobs with a cancel request."""

    lost: tuple[Lease, ...] = ()
    cancel_requested: tuple[str, ...] = ()


class Change(StrEnum):
    """The result of a request about one job."""

    DONE = "done"
    REQUESTED = "requested"
    """Recorded; its worker looks for it, see `Heartbeats.requests`."""
    REFUSED = "refused"
    """The job's status does not allow it."""
    TWIN = "twin"
    """Another job with the same dedup key is unfinished or complete."""
    MISSING = "missing"
    """There is no such job."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """The right to run maintenance until `expires_at`.

    `term` rises with every new holder; it begins again once the leadership was forgotten because no
    worker competed for it.
    """

    name: str
    holder: str
    term: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job whose attempt failed, or that failed as a whole, for the log.

    `attempt` is the number of its last attempt, 0 if it never started. What is None is not known.
    `dead_letter` is False if it does not become one by failing, see `holdfast.App.job`.
    """

    job_id: str
    kind: str | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    owner: str | None = None
    dead_letter: bool = True

    def __str__(self) -> str:
        return f"job {self.job_id}" + (f" ({self.kind})" if self.kind else "")


@dataclass(frozen=True, slots=True)
class Rescued:
    """Ids of jobs whose leases had expired, by their new state; `jobs` are all of them.

    `dead` have failed for good.
    """

    requeued: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    jobs: tuple[FailedJob, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Which finished jobs of one kind and status to delete.

    Args:
        kind: the kind.
        status: a finished status.
        max_age: seconds since they finished; None sets no limit.
        max_count: how many of the newest are kept; None sets no limit.
    """

    kind: str
    status: JobStatus
    max_age: float | None = None
    max_count: int | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A job that was deleted, with the fields needed to delete its files."""

    id: str
    kind: str
    status: JobStatus
    owner: str | None
    meta: str | None
    result: str | None
