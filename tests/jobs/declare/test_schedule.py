"""Slots of cron lines and intervals: daylight saving, calendars, rounding, and wrong input."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jobs.declare.schedule import cron_schedule, every_schedule, time_zone


def slots(line, zone, start, count):
    """Return the next slots after a local time, each computed from the one before."""
    schedule = cron_schedule(line, zone)
    moment = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).timestamp()
    found = []
    for _ in range(count):
        moment = schedule.next_after(moment)
        found.append(datetime.fromtimestamp(moment, schedule.zone).isoformat())
    return found


def test_a_fixed_time_that_spring_leaves_out_is_due_right_after_the_change():
    assert slots("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_fixed_time_that_autumn_repeats_is_due_once():
    assert slots("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


def test_an_interval_in_cron_form_follows_the_time_that_passes():
    assert slots("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:00", 3) == [
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ]
    assert slots("0 * * * *", "Europe/Berlin", "2026-10-25T01:30", 3) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


def test_a_zone_whose_clocks_change_by_half_an_hour():
    assert slots("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 2) == [
        "2026-10-04T02:30:00+11:00",
        "2026-10-05T02:15:00+11:00",
    ]
    assert slots("15,45 * * * *", "Australia/Lord_Howe", "2026-04-05T01:30", 3) == [
        "2026-04-05T01:45:00+11:00",
        "2026-04-05T01:45:00+10:30",
        "2026-04-05T02:15:00+10:30",
    ]


def test_utc_knows_no_daylight_saving():
    assert slots("30 2 * * *", "UTC", "2026-03-28T12:00", 2) == [
        "2026-03-29T02:30:00+00:00",
        "2026-03-30T02:30:00+00:00",
    ]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29"]),
        ("0 0 31 * *", ["2026-01-31", "2026-03-31", "2026-05-31"]),
        ("0 0 L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("0 0 * * MON#1", ["2026-01-05", "2026-02-02", "2026-03-02"]),
    ],
)
def test_leap_days_and_ends_of_months(line, expected):
    assert [slot[:10] for slot in slots(line, "UTC", "2026-01-01T00:00", 3)] == expected


LINES = ("*/7 * * * *", "30 2 * * *", "0 */6 * * 1-5", "15 1-4 * * *", "0 3 1 * *")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu")


@given(
    line=st.sampled_from(LINES),
    zone=st.sampled_from(ZONES),
    start=st.integers(1_735_689_600, 1_798_761_600),
    days=st.integers(0, 5),
    limit=st.integers(1, 9),
)
def test_the_newest_slots_are_those_that_going_forward_meets(line, zone, start, days, limit):
    schedule, moment, met = cron_schedule(line, zone), start, []
    through = start + days * 86400 + 0.5
    while (moment := schedule.next_after(moment)) <= through:
        met.append(moment)
    assert schedule.newest(limit, after=start, through=through) == met[-limit:]
    assert met == sorted(set(met))


@given(
    seconds=st.floats(0.01, 1e6),
    moment=st.floats(1e9, 4e9),
    limit=st.integers(1, 5),
)
def test_an_interval_neither_drifts_nor_repeats(seconds, moment, limit):
    schedule = every_schedule(seconds)
    first = schedule.next_after(moment)
    second = schedule.next_after(first)
    assert moment < first < second
    assert second - first == pytest.approx(seconds, abs=2e-6)
    assert schedule.newest(limit, after=moment, through=second)[-2:] == [first, second][-limit:]
    assert schedule.newest(limit, after=moment, through=moment) == []


def test_intervals_begin_with_whole_multiples_for_every_worker():
    assert every_schedule(30).next_after(1_700_000_001.5) == 1_700_000_010.0
    assert every_schedule(30).text == "every 30 s"
    assert every_schedule(0.25).text == "every 0.25 s"


@pytest.mark.parametrize(
    "line, problem",
    [
        ("", "must not be empty"),
        ("* * * *", "must have five fields"),
        ("* * * * * *", "must have five fields"),
        ("@daily", "must have five fields"),
        ("61 * * * *", "the minute '61' is wrong"),
        ("* 24 * * *", "the hour '24' is wrong"),
        ("0 0 0 * *", "the day-of-month '0' is wrong"),
        ("0 0 1 13 *", "the month '13' is wrong"),
        ("0 0 * * FUN", "the day-of-week 'FUN' is wrong"),
        ("*/0 * * * *", "the minute '\\*/0' is wrong"),
        ("0 0 31 2 *", "the day-of-month '31' is wrong"),
        ("0 0 */20 * 1L", "names no day that exists"),
    ],
)
def test_a_wrong_cron_line_is_refused(line, problem):
    with pytest.raises(ValueError, match=problem):
        cron_schedule(line)


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("Europe/Berlim", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("utc ", None),
    ],
)
def test_an_unknown_time_zone_is_refused_with_the_nearest_one(name, nearest):
    with pytest.raises(ValueError, match="there is no time zone") as refused:
        time_zone(name)
    if nearest is not None:
        assert f"did you mean {nearest!r}?" in str(refused.value)


@pytest.mark.parametrize("name", ["Europe", "../etc/passwd", "a\0b", "Nowhere/At_All_Whatsoever"])
def test_what_is_no_time_zone_at_all_is_refused(name):
    with pytest.raises(ValueError, match="there is no time zone"):
        time_zone(name)


def test_a_machine_without_time_zones_says_what_to_install(monkeypatch):
    monkeypatch.setattr("holdfast.jobs.declare.schedule.available_timezones", set)
    with pytest.raises(ValueError, match=r"install holdfast\[cron\]"):
        time_zone("Mars/Olympus")


def test_utc_needs_no_time_zones():
    assert time_zone("UTC") is UTC


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cronsim", None)
    with pytest.raises(ImportError, match=r"install holdfast\[cron\]"):
        cron_schedule("* * * * *")
