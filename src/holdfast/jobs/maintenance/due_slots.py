"""Decide which slots of a schedule get a job now, and which declaration of it counts.

Pure functions of the stored record, the declaration and the store's time. All times are epoch
seconds of the store.
"""

from dataclasses import dataclass, replace

from holdfast.jobs.declare.schedule import Missed, Periodic
from holdfast.jobs.declare.schedule_record import was_seen
from holdfast.jobs.store_port import ScheduleRecord

LATE = 60.0
"""Seconds for which a slot is late, not missed. A leader that dies is replaced well within it."""
MOST = 1000
"""Most slots that get a job after an outage; older ones are left out."""
BATCH = 100
"""Most jobs in one transaction."""
_CLOCK_BACK = 3600.0
"""Seconds that the record may be ahead of the clock. If more, the clock was wrong when it was
written, and waiting until it has caught up would stop the schedule."""


@dataclass(frozen=True, slots=True)
class DueSlots:
    """What is to be done now.

    Args:
        slots: those that get a job, oldest first.
        handled_until: the new `ScheduleRecord.handled_until`.
        left_out_from: the oldest slot that gets no job; None if each gets one.
    """

    slots: tuple[float, ...]
    handled_until: float
    left_out_from: float | None = None


def due_slots(record: ScheduleRecord, periodic: Periodic, now: float) -> DueSlots | None:
    """Return the slots that are due; None if none is.

    The oldest slot decides: if it is at most `LATE` seconds late, so are the others, and each gets
    its job. If not, or if it fell into a pause, all that are due were missed.
    """
    schedule, done = periodic.schedule, record.handled_until
    oldest = schedule.next_after(done)
    if oldest is None or oldest > now:
        return None
    through, missed = now, now - oldest > LATE
    if record.resumed_at is not None and oldest <= record.resumed_at:
        through, missed = min(now, record.resumed_at), True
    if missed and periodic.missed is Missed.SKIP:
        return DueSlots((), through, oldest)
    one = not periodic.overlap or (missed and periodic.missed is Missed.ONCE)
    limit = 1 if one else MOST
    slots = schedule.newest(limit, after=done, through=through)
    batch = tuple(slots[:BATCH])
    return DueSlots(batch, batch[-1], oldest if batch[0] > oldest else None)


def adopted(
    record: ScheduleRecord, periodic: Periodic, now: float, *, started_at: float
) -> ScheduleRecord | None:
    """Return `record` under the declaration of a worker that started at `started_at`.

    None if the record has another declaration that counts more: that of a worker that started
    later, as in a rolling deploy, and that was seen lately.
    """
    record = _with_clock(record, now)
    text, missed = periodic.schedule.text, str(periodic.missed)
    if (record.schedule, record.missed, record.overlap) == (text, missed, periodic.overlap):
        return record
    if record.declared_at >= started_at and was_seen(record, now):
        return None
    done = record.handled_until
    if record.schedule != text:
        # It begins with its next slot. A slot that is due now may be one of both schedules, though,
        # and has no job yet.
        due = record.next_slot is not None and record.next_slot <= now
        done = max(done, now - LATE if due else now)
    return replace(
        record,
        schedule=text,
        missed=missed,
        overlap=periodic.overlap,
        handled_until=done,
        declared_at=started_at,
        next_slot=periodic.schedule.next_after(done),
    )


def _with_clock(record: ScheduleRecord, now: float) -> ScheduleRecord:
    """Follow a clock that was set back: ids keep slots from getting a second job."""
    if record.handled_until - now <= _CLOCK_BACK:
        return record
    return replace(record, handled_until=now, resumed_at=None)
