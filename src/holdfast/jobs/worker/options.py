"""How a worker works."""

import os
import secrets
import socket
from dataclasses import dataclass, field

from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.owner_limits import OwnerLimits
from holdfast.jobs.worker.isolation.child_options import ChildOptions
from holdfast.jobs.worker.traceback_text import Redact
from holdfast.resilience import checks

_TRANSACTION_SECONDS = 3.0
"""Less than the time that other processes wait for the lock by default, which is 5 s."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works. All times are seconds.

    Args:
        concurrency: attempts that run at once; it never claims more than it can start
            within 50 ms.
        queues: the queues it serves; empty: all queues of the kinds it knows.
        batch: jobs that one tick claims at most.
        lease_seconds: how long a lease lasts unless it is extended.
        extend_every: how often the leases are extended; at most half of `lease_seconds`.
        poll_interval: how often the store is polled when no hint arrives.
        shutdown_seconds: how long `stop` lets running attempts go on before they are released.
        cleanup_seconds: how long an attempt that was asked to stop may take to clean up; after
            that it is reported as stopped and its late answer dropped.
        maintenance: how it does the fleet's maintenance while it leads; None: it never leads.
        worker_id: its name; None: its host and process id. In the store each start of a worker has
            an id of its own, which is this name with a random part.
        child: how child processes for `isolation="process"` are kept and limited.
        tracebacks: whether the traceback of a failed attempt is stored with it and logged with a
            dead letter; or a function that is given its text and returns what may be kept.
        transaction_seconds: how long `ctx.transaction()` may hold the write lock of a store that
            has only one; then it is rolled back. At most a quarter of `lease_seconds`, so that no
            lease is lost meanwhile; None: 3, or that quarter if it is less.
        owner_limits: the limits of owners without limits of their own, when it claims; None: those
            of the engine.
    """

    concurrency: int = 10
    queues: tuple[str, ...] = ()
    batch: int = 500
    lease_seconds: float = 300.0
    extend_every: float = 30.0
    poll_interval: float = 1.0
    shutdown_seconds: float = 30.0
    cleanup_seconds: float = 5.0
    maintenance: MaintenanceOptions | None = field(default_factory=MaintenanceOptions)
    worker_id: str | None = None
    child: ChildOptions = field(default_factory=ChildOptions)
    tracebacks: bool | Redact = True
    transaction_seconds: float | None = None
    owner_limits: OwnerLimits | None = None

    def __post_init__(self) -> None:
        checks.whole("concurrency", self.concurrency, at_least=1)
        checks.whole("batch", self.batch, at_least=1)
        for name in ("lease_seconds", "extend_every", "poll_interval"):
            checks.number(name, getattr(self, name), above=0)
        for name in ("shutdown_seconds", "cleanup_seconds"):
            checks.number(name, getattr(self, name), at_least=0)
        if self.extend_every > self.lease_seconds / 2:
            raise ValueError(
                f"extend_every must be at most half of lease_seconds ({self.lease_seconds:g}), "
                f"got {self.extend_every!r}: one missed extension would lose every lease"
            )
        checks.number("transaction_seconds", self.transaction_seconds, above=0, optional=True)
        if (self.transaction_seconds or 0.0) > self.lease_seconds / 4:
            raise ValueError(
                f"transaction_seconds must be at most a quarter of lease_seconds "
                f"({self.lease_seconds:g}), got {self.transaction_seconds!r}: no lease can be "
                f"extended meanwhile"
            )
        if isinstance(self.queues, str):
            raise TypeError(f"queues must be a tuple of names, got {self.queues!r}")
        object.__setattr__(self, "queues", tuple(self.queues))
        for queue in self.queues:
            checks.label("queues", queue)
        checks.instance("maintenance", self.maintenance, MaintenanceOptions, optional=True)
        checks.instance("child", self.child, ChildOptions)
        checks.instance("owner_limits", self.owner_limits, OwnerLimits, optional=True)
        if not isinstance(self.tracebacks, bool) and not callable(self.tracebacks):
            raise TypeError(
                f"tracebacks must be True, False or a function, got {self.tracebacks!r}"
            )
        if self.worker_id is not None:
            checks.label("worker_id", self.worker_id)

    @property
    def longest_transaction(self) -> float:
        """Seconds that `ctx.transaction()` may hold the only write lock."""
        return self.transaction_seconds or min(_TRANSACTION_SECONDS, self.lease_seconds / 4)


def new_worker_id(name: str | None = None) -> str:
    """Return the id of one start of a worker: `name`, or host and process id, and a random part.

    Leases belong to one start. If a restarted worker had the id of the one before, that one would
    seem to live, and its jobs would wait for their leases to expire.
    """
    if name is None:
        name = f"{socket.gethostname()[:60]}:{os.getpid()}"
    return f"{name}:{secrets.token_hex(3)}"
