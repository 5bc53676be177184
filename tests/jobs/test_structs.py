"""Values that are created for every job."""

import gc
from dataclasses import fields

import pytest
from msgspec.structs import replace

from holdfast.jobs.client.requests import JobHandle, JobRequest
from holdfast.jobs.model import Claim, Completed, Enqueued, Finished, Lease, NewJob
from holdfast.jobs.structs import Value


class Pair(Value, frozen=True):
    one: int
    other: str = "x"


def test_a_value_is_made_by_position_or_name_and_has_its_defaults():
    assert Pair(1) == Pair(one=1, other="x")


def test_values_with_the_same_fields_are_equal_and_one_in_a_set():
    assert {Pair(1), Pair(1, "x"), Pair(2)} == {Pair(1), Pair(2)}


def test_replace_makes_a_changed_copy():
    first = Pair(1)
    assert replace(first, other="y") == Pair(1, "y")
    assert first == Pair(1)


def test_a_value_can_be_matched_by_position():
    match Pair(3, "z"):
        case Pair(one, other):
            assert (one, other) == (3, "z")


VALUES = [Claim, Completed, Enqueued, Finished, Lease, NewJob]


@pytest.mark.parametrize("kind", VALUES)
def test_a_struct_is_immutable_and_not_tracked_by_the_garbage_collector(kind):
    assert kind.__struct_config__.frozen
    assert not kind.__struct_config__.gc
    assert "__dict__" not in dir(kind)


def test_a_field_of_a_struct_cannot_be_assigned():
    pair = Pair(1)
    with pytest.raises(AttributeError):
        pair.one = 2  # type: ignore[misc]
    assert not gc.is_tracked(pair)


@pytest.mark.parametrize("kind", [JobHandle, JobRequest])
def test_public_values_are_dataclasses_with_slots_and_no_dict(kind):
    assert set(kind.__slots__) == {field.name for field in fields(kind)}
    assert "__dict__" not in dir(kind)
