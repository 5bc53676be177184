"""Readable sizes and times."""

import pytest

from holdfast.http.pages import humanize


@pytest.mark.parametrize(
    "count, shown",
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1 kB"),
        (1536, "1.5 kB"),
        (10_240, "10 kB"),
        (102_400, "100 kB"),
        (52_428_800, "50 MB"),
        (13_002_342, "12.4 MB"),
        (1_048_575, "1024 kB"),
        (68_719_476_736, "64 GB"),
    ],
)
def test_sizes_have_two_or_three_figures(count, shown):
    assert humanize.size(count) == shown


@pytest.mark.parametrize(
    "seconds, shown",
    [
        (-1, "0 ms"),
        (0.0714, "71 ms"),
        (1.25, "1.2 s"),
        (10, "10 s"),
        (125, "2 min 5 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_have_the_unit_that_fits(seconds, shown):
    assert humanize.duration(seconds) == shown


@pytest.mark.parametrize(
    "seconds, shown",
    [
        (-3, "0 s"),
        (0, "0 s"),
        (0.1, "1 s"),
        (9.5, "10 s"),
        (59.5, "1 min 0 s"),
        (3600, "1 h 0 min"),
    ],
)
def test_remaining_time_is_rounded_up(seconds, shown):
    assert humanize.countdown(seconds) == shown


@pytest.mark.parametrize(
    "passed, shown",
    [
        (-5, "just now"),
        (59, "just now"),
        (61, "1 min ago"),
        (7300, "2 h ago"),
        (90_000, "yesterday"),
        (200_000, "2 days ago"),
    ],
)
def test_past_times_are_rounded(passed, shown):
    assert humanize.ago(1000, 1000 + passed) == shown


def test_moments_are_in_utc():
    assert humanize.iso(1_700_000_000.5) == "2023-11-14T22:13:20.500+00:00"
    assert humanize.clock_time(1_700_000_000) == "14 Nov 2023, 22:13:20 UTC"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"),
     (86_399, "23 h"), (172_799, "47 h"), (172_800, "2 days"), (604_799, "6 days")],
)  # fmt: skip
def test_what_is_left_is_rounded_down_to_one_unit(seconds, words):
    assert humanize.rough(seconds) == words


def test_a_time_of_day_is_in_utc():
    assert humanize.time_of_day(1_800_000_000) == "08:00 UTC"
