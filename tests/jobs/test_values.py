"""Values that are made for every job."""

from dataclasses import fields, replace

import pytest

from holdfast.jobs.model import Claim, Completed, Enqueued, Finished, Lease, NewJob
from holdfast.jobs.requests import JobHandle, JobRequest
from holdfast.jobs.values import value


@value
class Pair:
    one: int
    other: str = "x"


def test_a_value_is_made_by_position_or_name_and_has_its_defaults():
    assert Pair(1) == Pair(one=1, other="x")


def test_values_with_the_same_fields_are_equal_and_one_in_a_set():
    assert {Pair(1), Pair(1, "x"), Pair(2)} == {Pair(1), Pair(2)}


def test_another_value_is_made_by_replacing_fields():
    first = Pair(1)
    assert replace(first, other="y") == Pair(1, "y")
    assert first == Pair(1)


def test_a_value_can_be_matched_by_position():
    match Pair(3, "z"):
        case Pair(one, other):
            assert (one, other) == (3, "z")


@pytest.mark.parametrize(
    "kind", [Claim, Completed, Enqueued, Finished, Lease, NewJob, JobHandle, JobRequest, Pair]
)
def test_values_made_for_every_job_have_slots_for_their_fields_and_no_dict(kind):
    assert set(kind.__slots__) == {field.name for field in fields(kind)}
    assert "__dict__" not in dir(kind)
