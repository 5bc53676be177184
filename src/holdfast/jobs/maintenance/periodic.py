"""Enqueue the jobs of periodic kinds when their slots are due.

The record of a schedule says how far its slots are handled. It moves on by compare-and-set, in the
transaction that creates the slot's job, so that any number of leaders create one job for a slot. A
job's id follows from the name and the slot: if a record were lost, no second job would be created
as long as retention keeps the first one.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from holdfast.clock import Clock
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.schedule import Periodic
from holdfast.jobs.declare.schedule_record import new_record
from holdfast.jobs.declare.slot_meta import slot_meta
from holdfast.jobs.maintenance.due_slots import adopted, due_slots
from holdfast.jobs.model import Job, NewJob
from holdfast.jobs.store_port import PeriodicStore, ScheduleRecord

_log = logging.getLogger("holdfast.maintenance")

_LONGEST_SLEEP = 5.0
"""Seconds after which the records are read again: someone may have resumed a schedule."""
_IDLE_INTERVAL = 3600.0
"""Seconds between two rounds where no kind is periodic: there is nothing to do."""
_SEEN_EVERY = 15.0
"""Seconds between two writes that say that a worker declares the schedule."""
_MARGIN = 0.005
"""Seconds to wake up after a slot, so that a timer that ends early does not cost a round."""


class ScheduledStore(PeriodicStore, Protocol):
    """The store methods that periodic jobs use."""

    async def ping(self) -> float:
        """Return the store's time in epoch seconds."""
        ...

    async def get(self, job_id: str, *, now: float | None = None) -> Job | None:
        """Return one job."""
        ...


class PeriodicJobs:
    """Enqueue one job for each due slot of the periodic ones of `kinds`.

    Create it when its worker starts: of two declarations of a schedule the later start decides.
    """

    name = "periodic"

    def __init__(self, store: ScheduledStore, kinds: Iterable[JobKind], *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kinds = {
            kind.name: (kind, kind.periodic) for kind in kinds if kind.periodic is not None
        }
        self._started = clock.monotonic()
        self.interval = _LONGEST_SLEEP if self._kinds else _IDLE_INTERVAL

    async def round(self) -> int:
        """Enqueue the jobs of all due slots; return how many. Sets `interval` to the next slot."""
        if not self._kinds:
            return 0
        self.interval = _LONGEST_SLEEP
        wake_at = self._clock.monotonic() + _LONGEST_SLEEP
        remaining, enqueued = dict(self._kinds), 0
        while remaining:
            records = {record.name: record for record in await self._store.schedules()}
            now, read_at = await self._store.ping(), self._clock.monotonic()
            await self._create(remaining.keys() - records.keys(), now)
            for name in sorted(remaining.keys() & records.keys()):
                kind, periodic = remaining[name]
                created = await self._step(kind, periodic, records[name], now)
                if created is None:
                    del remaining[name]
                    slot = periodic.schedule.next_after(now)
                    if slot is not None:
                        wake_at = min(wake_at, read_at + slot - now)
                else:
                    enqueued += created  # and read it again: there may be more
        self.interval = max(0.0, wake_at - self._clock.monotonic()) + _MARGIN
        return enqueued

    async def _create(self, names: Iterable[str], now: float) -> None:
        new = [
            new_record(name, self._kinds[name][1], now, declared_at=self._started_at(now))
            for name in sorted(names)
        ]
        if new:
            await self._store.create_schedules(new)

    async def _step(
        self, kind: JobKind, periodic: Periodic, stored: ScheduleRecord, now: float
    ) -> int | None:
        """Write what is due, at most one batch; return how many jobs, None if nothing is due."""
        record = adopted(stored, periodic, now, started_at=self._started_at(now))
        if record is None:
            return None
        due = None if record.paused_at is not None else due_slots(record, periodic, now)
        if due is None:
            if record == stored and abs(now - stored.seen_at) < _SEEN_EVERY:
                return None
            await self._store.write_schedule(replace(record, seen_at=now))
            return 0
        slots = due.slots if await self._may_start(record) else ()
        if due.left_out_from is not None:
            _log.warning(
                "%s: slots from %s on were missed and get no job of their own (missed=%s)",
                kind.name, _utc(due.left_out_from), periodic.missed,
            )  # fmt: skip
        jobs = [_job(kind, periodic, slot, now) for slot in slots]
        record = replace(
            record,
            handled_until=due.handled_until,
            next_slot=periodic.schedule.next_after(due.handled_until),
            seen_at=now,
        )
        if jobs:
            record = replace(record, last_slot=slots[-1], last_job=jobs[-1].id)
        written = await self._store.write_schedule(record, jobs)
        # None: another leader or a person wrote first.
        return 0 if written is None else len(jobs)

    async def _may_start(self, record: ScheduleRecord) -> bool:
        """Say whether a slot may get a job: not while the last one is unfinished, if so declared.

        Only this service creates the next one, so the answer stays right until the write.
        """
        if record.overlap or record.last_job is None:
            return True
        last = await self._store.get(record.last_job)
        if last is None or last.status.finished:
            return True
        _log.info("%s: a slot gets no job while %s is unfinished", record.name, last.id)
        return False

    def _started_at(self, now: float) -> float:
        """Return when this worker started, by the store's clock."""
        return now - (self._clock.monotonic() - self._started)


def slot_job_id(name: str, slot: float) -> str:
    """Return the id of the job for `slot`, in epoch seconds: `app.tidy:2026-03-29T01:00:00Z`."""
    return f"{name}:{_utc(slot)}"


def _job(kind: JobKind, periodic: Periodic, slot: float, now: float) -> NewJob:
    return NewJob(
        slot_job_id(kind.name, slot),
        kind.name,
        kind.queue,
        kind.handler.arguments.encode(None),
        downstream=None if kind.downstream is None else kind.downstream.name,
        max_attempts=kind.policy.max_attempts,
        deadline_at=None if kind.deadline is None else now + kind.deadline,
        meta=slot_meta(slot, periodic.schedule.zone),
    )


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
