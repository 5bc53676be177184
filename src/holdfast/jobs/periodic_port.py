"""What a store does for periodic jobs: one durable row per schedule."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.jobs.model import NewJob


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """The durable state of the schedule of one periodic job. Times are epoch seconds.

    Args:
        name: the name of the kind.
        schedule: when it is due, as text: a cron line with its time zone, or an interval.
        missed: what happens to missed slots: skip, once or all.
        overlap: whether a slot gets a job while that of the slot before is unfinished.
        handled_until: every slot up to here has got its job, or was left out on purpose.
        declared_at: when the worker started whose declaration this is.
        seen_at: when a worker that declares it last wrote; 0 if none has.
        next_slot: the next slot; None if there is none.
        last_slot: the newest slot that got a job.
        last_job: the id of that job.
        paused_at: when it was paused; None while it is not.
        resumed_at: when it was last resumed.
        version: counts the writes.
    """

    name: str
    schedule: str
    missed: str
    overlap: bool
    handled_until: float
    declared_at: float
    seen_at: float = 0.0
    next_slot: float | None = None
    last_slot: float | None = None
    last_job: str | None = None
    paused_at: float | None = None
    resumed_at: float | None = None
    version: int = 0


class PeriodicStore(Protocol):
    """Keep the schedules of periodic jobs."""

    async def schedules(self) -> tuple[ScheduleRecord, ...]:
        """Return all schedules, by name."""
        ...

    async def create_schedules(self, records: Sequence[ScheduleRecord]) -> None:
        """Store those of `records` whose names are not stored yet."""
        ...

    async def write_schedule(
        self, record: ScheduleRecord, jobs: Sequence[NewJob] = (), *, now: float | None = None
    ) -> ScheduleRecord | None:
        """Store `record` if the stored version is still its own, and create `jobs` with it.

        One transaction: both or neither. Return the record with its new version; None if another
        write came first, or there is no such schedule. A job whose id exists is not created again.
        """
        ...
