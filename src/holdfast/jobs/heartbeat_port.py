"""What a store does for the heartbeat thread of a worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.jobs.model import Lease
from holdfast.jobs.store_values import Extended


@dataclass(frozen=True, slots=True)
class WorkerRequests:
    """What people asked of a worker: ids of its jobs to cancel, and whether it is to finish."""

    cancel: tuple[str, ...] = ()
    finish: bool = False


class Heartbeats(Protocol):
    """Keep a worker and its leases alive, from a thread with its own event loop."""

    async def register(self, worker_id: str) -> None:
        """Connect, and register the worker as alive; cheap while that is so.

        `worker_id` is the id of one start of a worker, never used again by another process.
        When its process dies, `rescue` takes its jobs within seconds, if the store can tell; if it
        cannot, as behind a connection pooler, when their leases have expired. A worker whose
        connection was lost registers again with the next call.
        """
        ...

    async def extend(
        self, leases: Sequence[Lease], lease_seconds: float, *, now: float | None = None
    ) -> Extended:
        """Extend all `leases` to `lease_seconds` from now, in one statement.

        An expired lease is extended too, as long as its job was not rescued. A lease whose job was
        taken is lost, and the write is counted as refused. A lease ended by the worker's own report
        is lost too, but not counted.
        """
        ...

    async def requests(self, worker_id: str) -> WorkerRequests:
        """Return which of the worker's jobs are to be cancelled, and whether it is to finish.

        A connection that does not answer fails here, so that the next `register` makes a new one.
        """
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...
