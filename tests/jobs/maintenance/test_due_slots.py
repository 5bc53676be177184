"""Which slots get a job: late ones, missed ones, those of a pause; and whose declaration counts."""

from dataclasses import replace

import pytest

from holdfast.jobs.declare.schedule import Missed, Periodic, every_schedule
from holdfast.jobs.declare.schedule_record import UNSEEN, new_record
from holdfast.jobs.maintenance.due_slots import (
    BATCH,
    LATE,
    MOST,
    DueSlots,
    adopted,
    due_slots,
)

NOW = 1_800_000_000.0


def every(seconds=10.0, missed=Missed.SKIP, overlap=True):
    return Periodic(every_schedule(seconds), missed, overlap)


def record(periodic, done=NOW, **fields):
    return replace(new_record("a.tidy", periodic, done, declared_at=NOW - 1000), **fields)


def test_a_new_schedule_begins_with_its_next_slot():
    new = record(every())
    assert (new.handled_until, new.next_slot) == (NOW, NOW + 10)
    assert due_slots(new, every(), NOW + 9.9) is None
    assert due_slots(new, every(), NOW + 10) == DueSlots((NOW + 10,), NOW + 10)


@pytest.mark.parametrize("missed", Missed)
def test_late_slots_get_a_job_each_whatever_happens_to_missed_ones(missed):
    due = due_slots(record(every()), every(missed=missed), NOW + 10 + LATE)
    assert due.slots == tuple(NOW + 10 * number for number in range(1, 8))
    assert (due.handled_until, due.left_out_from) == (NOW + 70, None)


def test_missed_slots_are_skipped():
    periodic = every(missed=Missed.SKIP)
    due = due_slots(record(periodic), periodic, NOW + 11 + LATE)
    assert due == DueSlots((), NOW + 11 + LATE, NOW + 10)


def test_missed_slots_get_one_job_for_the_newest():
    periodic = every(missed=Missed.ONCE)
    assert due_slots(record(periodic), periodic, NOW + 3605) == DueSlots(
        (NOW + 3600,), NOW + 3600, NOW + 10
    )
    # One slot that was missed alone gets its job, and nothing is left out.
    hourly = every(3600, Missed.ONCE)
    assert due_slots(record(hourly), hourly, NOW + 5000) == DueSlots((NOW + 3600,), NOW + 3600)


def test_missed_slots_get_a_job_each_in_batches():
    periodic = every(missed=Missed.ALL)
    current, slots = record(periodic), []
    while (due := due_slots(current, periodic, NOW + 3605)) is not None:
        assert len(due.slots) <= BATCH
        slots += due.slots
        current = replace(current, handled_until=due.handled_until)
    assert slots == [NOW + 10 * number for number in range(1, 361)]


def test_after_a_long_outage_the_newest_slots_count():
    periodic = every(missed=Missed.ALL)
    due = due_slots(record(periodic), periodic, NOW + 86400)
    first = NOW + 86400 - 10 * (MOST - 1)
    assert (due.slots[0], due.left_out_from) == (first, NOW + 10)


@pytest.mark.parametrize("missed, slots", [(Missed.SKIP, 0), (Missed.ONCE, 1), (Missed.ALL, 3)])
def test_slots_of_a_pause_are_missed_and_those_after_it_are_not(missed, slots):
    """Also if the pause was short: being late does not save them."""
    periodic = every(missed=missed)
    resumed = record(periodic, resumed_at=NOW + 35)
    due = due_slots(resumed, periodic, NOW + 41)
    assert len(due.slots) == slots
    assert due.handled_until <= NOW + 35
    following = due_slots(replace(resumed, handled_until=due.handled_until), periodic, NOW + 41)
    assert following == DueSlots((NOW + 40,), NOW + 40)


def test_without_overlap_late_slots_get_one_job():
    periodic = every(overlap=False)
    due = due_slots(record(periodic), periodic, NOW + 35)
    assert due == DueSlots((NOW + 30,), NOW + 30, NOW + 10)


def test_the_same_declaration_is_everyones():
    same = record(every())
    assert adopted(same, every(), NOW, started_at=0.0) is same


def test_the_declaration_of_the_worker_that_started_last_counts():
    stored = record(every(), declared_at=NOW - 100, seen_at=NOW)
    new = every(7)
    assert adopted(stored, new, NOW, started_at=NOW - 101) is None
    changed = adopted(stored, new, NOW, started_at=NOW - 99)
    assert (changed.schedule, changed.declared_at) == ("every 7 s", NOW - 99)
    assert changed.next_slot == every_schedule(7).next_after(NOW)


def test_an_older_declaration_counts_again_once_no_worker_has_the_newer_one():
    stored = record(every(), declared_at=NOW - 100, seen_at=NOW - UNSEEN - 1)
    changed = adopted(stored, every(7), NOW, started_at=0.0)
    assert changed.schedule == "every 7 s"


def test_a_changed_schedule_begins_with_its_next_slot():
    stored = record(every(86400), done=NOW - 3000, seen_at=NOW)
    changed = adopted(stored, every(10, Missed.ALL), NOW, started_at=NOW)
    assert (changed.handled_until, changed.next_slot) == (NOW, NOW + 10)


def test_a_slot_that_is_due_while_the_schedule_changes_gets_its_job():
    now = NOW + 31
    stored = record(every(30), done=NOW, seen_at=now)
    changed = adopted(stored, every(10), now, started_at=now)
    assert due_slots(changed, every(10), now).slots == (NOW + 10, NOW + 20, NOW + 30)
    long_ago = record(every(30), done=NOW - 3600, seen_at=now)
    assert adopted(long_ago, every(10), now, started_at=now).handled_until == now - LATE


def test_a_changed_rule_for_missed_slots_keeps_the_slots():
    stored = record(every(), done=NOW - 3600, seen_at=NOW)
    changed = adopted(stored, every(missed=Missed.ONCE), NOW, started_at=NOW)
    assert (changed.missed, changed.handled_until) == ("once", NOW - 3600)


def test_a_clock_that_is_set_back_a_little_is_waited_for():
    ahead = record(every(), done=NOW + 600)
    assert adopted(ahead, every(), NOW, started_at=NOW) == ahead
    assert due_slots(ahead, every(), NOW + 600) is None


def test_a_clock_that_was_wrong_by_a_year_does_not_stop_the_schedule():
    ahead = record(every(), done=NOW + 3.2e7, resumed_at=NOW + 3.2e7)
    followed = adopted(ahead, every(), NOW, started_at=NOW)
    assert due_slots(followed, every(), NOW + 10) == DueSlots((NOW + 10,), NOW + 10)
