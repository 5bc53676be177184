"""Error messages for invalid values."""

import pickle

import pytest

from holdfast.errors import Category, ErrorCode
from holdfast.jobs.declare.validation import (
    PayloadTooLarge,
    ValidationError,
    field_path,
    shown,
    type_name,
    validation_error,
)
from holdfast.resilience.categorize import categorize


def test_a_validation_error_is_permanent_and_a_value_error():
    error = ValidationError("arguments of a.b", "expected int, got 'x'", field="n")
    assert str(error) == "arguments of a.b: n: expected int, got 'x'"
    assert isinstance(error, ValueError)
    assert categorize(error) is Category.PERMANENT


def test_the_error_for_a_payload_over_the_limit_has_advice():
    error = PayloadTooLarge("arguments of a.b", 300, 200)
    assert error.code is ErrorCode.TOO_LARGE
    assert (error.size, error.limit) == (300, 200)
    assert "pass its name, or raise payload_limit" in str(error)


@pytest.mark.parametrize(
    "error",
    [ValidationError("s", "p", field="f"), PayloadTooLarge("s", 2, 1)],
    ids=["validation", "too large"],
)
def test_errors_can_be_pickled(error):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_a_shown_value_is_cut():
    assert shown("ab") == "'ab'"
    assert shown("x" * 500) == "'" + "x" * 79 + "…"


def test_a_value_whose_repr_fails_is_shown_by_its_type():
    class Odd:
        def __repr__(self):
            raise RuntimeError("no")

    assert shown(Odd()) == "<Odd>"


def test_types_are_named_as_they_are_written():
    assert type_name(ValidationError) == "ValidationError"
    assert type_name(int | None) == "int | None"


def test_a_field_path_has_dots_and_brackets():
    assert field_path(("lines", 2, "amount")) == "lines[2].amount"
    assert field_path((0, "a")) == "[0].a"
    assert field_path(()) == ""


@pytest.mark.parametrize(
    "message, given, where, expected",
    [
        ("Expected `int`, got `str` - at `$.a[1].b`", {"a": [0, {"b": "x"}]}, "a[1].b", "'x'"),
        ("Expected `int`, got `str` - at `$[0]`", ["x"], "[0]", "expected int, got 'x'"),
        ("Expected `int`, got `str`", "x", "", "expected int, got 'x'"),
        ("Expected `str`, got `int` - at `key` in `$.m`", {"m": {1: 2}}, "m", "got {1: 2}"),
        ("Invalid UUID - at `$.a.b`", {"a": 3}, "a.b", "Invalid UUID"),
        ("Expected `int`, got `str` - at `$.a[5]`", {"a": []}, "a[5]", "Expected `int`, got"),
    ],
)
def test_a_codecs_message_gets_field_and_value(message, given, where, expected):
    error = validation_error("s", message, given)
    assert error.field == where
    assert expected in str(error)
