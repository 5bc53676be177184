"""The record of a schedule: how it begins, and whether a worker still declares it."""

from dataclasses import replace

from holdfast.jobs.declare.schedule import Missed, Periodic, every_schedule
from holdfast.jobs.declare.schedule_record import UNSEEN, new_record, was_seen

NOW = 1_800_000_000.0
RECORD = new_record(
    "a.tidy", Periodic(every_schedule(10.0), Missed.ONCE, overlap=False), NOW, declared_at=NOW - 5
)


def test_a_new_record_holds_the_declaration_and_begins_with_the_next_slot():
    assert (RECORD.name, RECORD.schedule) == ("a.tidy", "every 10 s")
    assert (RECORD.missed, RECORD.overlap, RECORD.declared_at) == ("once", False, NOW - 5)
    assert (RECORD.handled_until, RECORD.next_slot) == (NOW, NOW + 10)


def test_a_schedule_without_a_worker_can_be_seen():
    assert was_seen(replace(RECORD, seen_at=NOW - UNSEEN), NOW)
    assert not was_seen(replace(RECORD, seen_at=NOW - UNSEEN - 1), NOW)
