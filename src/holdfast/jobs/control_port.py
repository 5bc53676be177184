"""What a store does on request of people: to single jobs, and to the fleet as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from holdfast.jobs.store_values import Change, Deleted


class PauseScope(StrEnum):
    """What a pause is of."""

    QUEUE = "queue"
    KIND = "kind"


@dataclass(frozen=True, slots=True)
class StoredPause:
    """A queue or a kind of which no job is claimed since `paused_at`, in epoch seconds."""

    scope: PauseScope
    name: str
    paused_at: float


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker that is alive, or that has jobs under lease.

    Args:
        id: the id of one start of it; see `WorkerOptions.worker_id`.
        running: how many jobs it has under lease.
        finish_requested_at: when someone asked it to finish, in epoch seconds, or None.
        registered_at: when it registered first, in epoch seconds; None if that is not known.
    """

    id: str
    running: int
    finish_requested_at: float | None = None
    registered_at: float | None = field(default=None, compare=False)


class ControlStore(Protocol):
    """Carry out requests of people: cancel, retry, discard."""

    async def cancel(self, job_id: str, *, now: float | None = None) -> Change:
        """Cancel a job: DONE if it is not running, REQUESTED if it is, REFUSED if finished.

        A job that completes before its worker learns of the request is complete. Repeating the
        call returns the same answer.
        """
        ...

    async def expedite(self, job_id: str, *, now: float | None = None) -> Change:
        """Make a queued job ready now: DONE, REFUSED or MISSING.

        It counts as no retry. A job that is ready already is left unchanged: DONE.
        """
        ...

    async def retry(
        self, job_ids: Sequence[str], *, now: float | None = None
    ) -> tuple[Change, ...]:
        """Requeue failed jobs: DONE, REFUSED, TWIN or MISSING for each, in order.

        The attempt count restarts, history and token are kept, `manual_retry_count` rises, and a
        deadline that has passed is removed. TWIN: another job has its dedup key, and counts by the
        rule that this one was created with.
        """
        ...

    async def discard(self, job_ids: Sequence[str], *, now: float | None = None) -> int:
        """Remove jobs from the dead letters; return how many.

        They stay failed until retention deletes them.
        """
        ...

    async def delete(self, job_ids: Sequence[str]) -> tuple[Deleted, ...]:
        """Delete the finished jobs among `job_ids`, with their history; return them."""
        ...


class FleetStore(Protocol):
    """Keep the requests of people to the whole fleet and to single workers."""

    async def pause(
        self, scope: PauseScope, names: Sequence[str], *, now: float | None = None
    ) -> tuple[str, ...]:
        """Pause queues or kinds; return those that were not paused before.

        No claim that begins afterwards takes one of their jobs. Jobs are created, fail at their
        deadlines and are cancelled as before, and running attempts go on.
        """
        ...

    async def resume(
        self, scope: PauseScope, names: Sequence[str], *, now: float | None = None
    ) -> tuple[str, ...]:
        """End pauses and wake the workers; return the names that were paused."""
        ...

    async def pauses(self) -> tuple[StoredPause, ...]:
        """Return all pauses, by scope and name."""
        ...

    async def workers(self) -> tuple[WorkerRecord, ...]:
        """Return the workers that are alive or have jobs, by id.

        Behind a connection pooler a worker is known only while it has jobs, or leads maintenance.
        """
        ...

    async def request_finish(self, worker_id: str, *, now: float | None = None) -> bool:
        """Ask a worker to finish; False if it is not one of `workers`.

        Its heartbeat finds the request, see `Heartbeats.requests`. Repeating it changes nothing.
        """
        ...
