"""What goes in and out of a store's methods, and what a store may raise.

The methods are in `holdfast.jobs.store_port`, which also exports every name of this file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.model import Claim, JobStatus, Lease


class StoreError(HoldfastError):
    """Be the base of what a store raises."""

    code = ErrorCode.IO_ERROR


class StoreUnavailable(StoreError):
    """The store cannot do it now; wait and try again."""


class StoreBusy(StoreUnavailable):
    """Another process keeps the store locked."""


class StoreFull(StoreUnavailable):
    """The store has no room left to write."""


class StoreUnusable(StoreError):
    """The store cannot be used as it is: wrong version, newer schema, bad address. Do not retry."""

    code = ErrorCode.INVALID_STATE


class StoreClosed(StoreError):
    """The store was closed by its owner."""

    code = ErrorCode.INVALID_STATE


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a worker can take on.

    Args:
        limit: jobs at most; never more than the worker has free slots.
        queues: the queues it serves.
        kinds: the kinds it knows, each with how many may run at once in the whole fleet, or None.
        lease_seconds: how long the leases last unless they are extended.
    """

    limit: int
    queues: tuple[str, ...]
    kinds: Mapping[str, int | None]
    lease_seconds: float = 300.0


class Refusal(StrEnum):
    """Why a worker's write was refused."""

    STALE = "stale"
    """The lease is no longer the worker's: rescued, timed out, cancelled, or run by another."""
    LATE = "late"
    """The deadline had passed: a result was kept as a late result, the status did not change."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A report that changed nothing, and why. A stale one was counted in `refused_writes`."""

    lease: Lease
    reason: Refusal


@dataclass(frozen=True, slots=True)
class Overruled:
    """A report that was accepted, though the job went elsewhere than its outcome says.

    `Completed` after the deadline: FAILED (`TIMEOUT`), the result kept as late. `Retry` or
    `Released` of a job that was asked to cancel: CANCELLED. `Retry` without an attempt left:
    FAILED, a dead letter.
    """

    lease: Lease
    status: JobStatus


@dataclass(frozen=True, slots=True)
class TickResult:
    """What a tick did.

    Args:
        claims: the attempts to run now.
        refused: reports that changed nothing.
        overruled: reports whose jobs went elsewhere.
        moved: records whose breaker changed its state in this tick, as written.
        timed_out: ids of jobs found past their deadline while claiming, failed with `TIMEOUT`.
        wake_at: when something is known to become claimable, in epoch seconds; None: unknown.
        mark: hand it to `wait_for_work`.
        now: the time that this tick was judged by, in epoch seconds.
    """

    claims: tuple[Claim, ...]
    refused: tuple[Refused, ...]
    overruled: tuple[Overruled, ...]
    moved: tuple[DownstreamRecord, ...]
    timed_out: tuple[str, ...]
    wake_at: float | None
    mark: int
    now: float


@dataclass(frozen=True, slots=True)
class Extended:
    """What became of an extension: leases that are lost, and ids that were asked to cancel."""

    lost: tuple[Lease, ...] = ()
    cancel_requested: tuple[str, ...] = ()


class Change(StrEnum):
    """What a request about one job came to."""

    DONE = "done"
    REQUESTED = "requested"
    """Noted; its worker is told at the next heartbeat."""
    REFUSED = "refused"
    """The job's status does not allow it."""
    TWIN = "twin"
    """Another job with the same dedup key is unfinished or complete."""
    MISSING = "missing"
    """There is no such job."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """The right to run maintenance until `expires_at`. `term` rises with every new holder."""

    name: str
    holder: str
    term: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class Rescued:
    """Ids of jobs whose leases had run out, by what became of them."""

    requeued: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Which finished jobs of one kind and status may go.

    Args:
        kind: the kind.
        status: a finished status.
        max_age: seconds since they finished; None keeps them whatever their age.
        max_count: how many of the newest are kept; None keeps them whatever their number.
    """

    kind: str
    status: JobStatus
    max_age: float | None = None
    max_count: int | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A job that retention deleted, with what is needed to delete its files too."""

    id: str
    kind: str
    status: JobStatus
    owner: str | None
    meta: str | None
    result: str | None
