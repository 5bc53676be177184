"""List periodic jobs; pause and resume their schedules; run one now."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.client.enqueue import Enqueuer
from holdfast.jobs.client.requests import JobHandle, JobRequest
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.schedule_record import new_record, was_seen
from holdfast.jobs.declare.validation import shown
from holdfast.jobs.store_port import ScheduleRecord, Store

_WRITE_TRIES = 20
"""How often a write is tried while workers write the same record."""

PeriodicName = str | JobFunction[Any, Any]
"""Identifies a periodic job: the declared function, or the name of its kind."""


class UnknownSchedule(HoldfastError, LookupError):
    """There is no periodic job `name`: no worker has declared it, and no app of this engine."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no periodic job {name!r}")
        self.name = name


class ScheduleBusy(HoldfastError):
    """Every try to write the schedule of `name` lost against a worker's write."""

    code = ErrorCode.IO_ERROR

    def __init__(self, name: str) -> None:
        super().__init__(f"the schedule of {name!r} is being written by workers; try again")
        self.name = name


@dataclass(frozen=True, slots=True)
class PeriodicSchedule:
    """The schedule of a periodic job. Times are epoch seconds of the store.

    Args:
        name: the name of its kind.
        schedule: when it is due: a cron line with its time zone, or `every 30 s`.
        missed: what happens to missed slots: skip, once or all.
        overlap: whether a slot gets a job while that of the slot before is unfinished.
        has_worker: whether a running worker declares it; without one no slot gets a job.
        paused_at: when it was paused; None while it is not.
        next_slot: when it is due next; None while it is paused or has no worker.
        last_slot: the newest slot that got a job.
        last_job: the id of that job.
    """

    name: str
    schedule: str
    missed: str
    overlap: bool
    has_worker: bool
    paused_at: float | None
    next_slot: float | None
    last_slot: float | None
    last_job: str | None

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.paused_at is not None


class PeriodicControl:
    """List, pause, resume and run periodic jobs.

    A method that takes a name, or the declared function, raises `UnknownSchedule` if there is no
    such periodic job.
    """

    def __init__(self, store: Store, registry: Registry, enqueuer: Enqueuer) -> None:
        self._store = store
        self._registry = registry
        self._enqueuer = enqueuer

    async def list(self) -> tuple[PeriodicSchedule, ...]:
        """Return the schedules of all periodic jobs, by name.

        They are those that workers have declared at any time, and those of this engine's apps.
        """
        now = await self._store.ping()
        known = {record.name: record for record in await self._store.schedules()}
        for name, kind in self._registry.kinds.items():
            if kind.periodic is not None and name not in known:
                known[name] = new_record(name, kind.periodic, now, declared_at=0.0)
        return tuple(_view(known[name], now) for name in sorted(known))

    async def get(self, job: PeriodicName) -> PeriodicSchedule:
        """Return the schedule of one periodic job."""
        name = _name(job)
        for schedule in await self.list():
            if schedule.name == name:
                return schedule
        raise UnknownSchedule(name)

    async def pause(self, job: PeriodicName) -> PeriodicSchedule:
        """Enqueue no more slots of a job, across restarts, until it is resumed.

        Jobs that are queued or running go on. Pausing twice changes nothing.
        """

        def paused(record: ScheduleRecord, now: float) -> ScheduleRecord:
            return record if record.paused_at is not None else replace(record, paused_at=now)

        return await self._change(_name(job), paused)

    async def resume(self, job: PeriodicName) -> PeriodicSchedule:
        """End a pause, within 5 seconds; the slots that fell into it follow `missed`."""

        def resumed(record: ScheduleRecord, now: float) -> ScheduleRecord:
            if record.paused_at is None:
                return record
            return replace(record, paused_at=None, resumed_at=now)

        return await self._change(_name(job), resumed)

    async def run_now(self, job: PeriodicName) -> JobHandle[Any]:
        """Enqueue a job beside the schedule, also while it is paused.

        Raises:
            UnknownKind: no app of this engine declares it, though a worker does or did.
        """
        name = _name(job)
        kind = self._registry.find(name)
        if kind is None:
            await self.get(name)
            kind = self._registry.kind(name)
        if kind.periodic is None:
            raise UnknownSchedule(name)
        (handle,) = await self._enqueuer.enqueue([JobRequest(name, None)])
        return handle

    async def _change(
        self, name: str, change: Callable[[ScheduleRecord, float], ScheduleRecord]
    ) -> PeriodicSchedule:
        for _ in range(_WRITE_TRIES):
            now = await self._store.ping()
            record = await self._record(name, now)
            changed = change(record, now)
            if changed == record:
                return _view(record, now)
            written = await self._store.write_schedule(changed)
            if written is not None:
                return _view(written, now)
        raise ScheduleBusy(name)

    async def _record(self, name: str, now: float) -> ScheduleRecord:
        """Return the stored record; create it if an app of this engine declares it."""
        for record in await self._store.schedules():
            if record.name == name:
                return record
        kind = self._registry.find(name)
        if kind is None or kind.periodic is None:
            raise UnknownSchedule(name)
        created = new_record(name, kind.periodic, now, declared_at=0.0)
        await self._store.create_schedules([created])
        return created


def _name(job: PeriodicName) -> str:
    if isinstance(job, JobFunction):
        return job.kind.name
    if not isinstance(job, str):
        raise TypeError(f"a periodic job is named by a string or its function, got {shown(job)}")
    return job


def _view(record: ScheduleRecord, now: float) -> PeriodicSchedule:
    has_worker = was_seen(record, now)
    runs = has_worker and record.paused_at is None
    return PeriodicSchedule(
        record.name,
        record.schedule,
        record.missed,
        record.overlap,
        has_worker,
        record.paused_at,
        record.next_slot if runs else None,
        record.last_slot,
        record.last_job,
    )
