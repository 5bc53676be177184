"""Families of samples."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest

from holdfast.telemetry.prometheus.families import (
    DURATIONS,
    DurationHistogram,
    FamilyList,
    family,
)

SECONDS = st.floats(0, 5000) | st.sampled_from(DURATIONS)


@given(st.lists(SECONDS, max_size=50))
def test_many_durations_are_counted_as_one_by_one(seconds):
    one_by_one, at_once = DurationHistogram(), DurationHistogram()
    for each in seconds:
        one_by_one.add(each)
    at_once.add_all(list(seconds))

    assert at_once.buckets() == one_by_one.buckets()
    counts = [count for _, count in at_once.buckets()]
    for bound, count in zip(DURATIONS, counts, strict=False):
        assert count == sum(each <= bound for each in seconds)
    assert counts[-1] == len(seconds)
    assert bisect_left(DURATIONS, 0) == 0


def test_samples_with_the_same_labels_are_added_up():
    made = family("queue_depth", [(("a",), 2.0), (("b",), 1.0), (("a",), 3.0)])

    assert {each.labels["queue"]: each.value for each in made.samples} == {"a": 5.0, "b": 1.0}


def test_a_label_cannot_break_out_of_its_quotes():
    text = generate_latest(FamilyList([family("queue_depth", [(('a"b\\c\nd',), 1.0)])])).decode()

    assert 'queue_depth{queue="a\\"b\\\\c\\nd"} 1.0\n' in text
