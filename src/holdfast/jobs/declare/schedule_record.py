"""The stored record of a schedule, as workers and clients make and read it.

All times are epoch seconds of the store.
"""

from holdfast.jobs.declare.schedule import Periodic
from holdfast.jobs.store_port import ScheduleRecord

UNSEEN = 60.0
"""Seconds without a worker that declares a schedule, after which another declaration counts."""


def new_record(name: str, periodic: Periodic, now: float, *, declared_at: float) -> ScheduleRecord:
    """Return the record of a schedule that is new: it begins with its next slot."""
    return ScheduleRecord(
        name,
        periodic.schedule.text,
        str(periodic.missed),
        periodic.overlap,
        handled_until=now,
        declared_at=declared_at,
        next_slot=periodic.schedule.next_after(now),
    )


def was_seen(record: ScheduleRecord, now: float) -> bool:
    """Say whether a worker that declares the schedule wrote its record lately."""
    return abs(now - record.seen_at) <= UNSEEN
