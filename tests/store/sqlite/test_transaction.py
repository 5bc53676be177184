"""Parameters of statements."""

import json
from enum import IntEnum, StrEnum

import pytest

from holdfast.store.sqlite.transaction import as_json


class Word(str):
    __slots__ = ()


class Number(int):
    pass


class Share(float):
    pass


class Level(IntEnum):
    HIGH = 3


class Name(StrEnum):
    QUEUED = "queued"


def test_rows_become_json_arrays():
    rows = [(1, "ä\n\0\u2028", 0.5, None, True), [2, '"', -1e300, 2**60, False]]
    assert json.loads(as_json(rows)) == [list(row) for row in rows]


@pytest.mark.parametrize(
    "given, plain",
    [
        (Word("x"), "x"), (Number(7), 7), (Share(0.25), 0.25), (Level.HIGH, 3),
        (Name.QUEUED, "queued"),
    ],
)  # fmt: skip
def test_subclasses_of_text_and_numbers_are_stored_as_plain_values(given, plain):
    assert json.loads(as_json([given])) == [plain]


def test_a_lone_surrogate_is_refused():
    with pytest.raises(UnicodeEncodeError):
        as_json(["\ud800"])


def test_a_value_that_is_neither_text_nor_number_is_refused():
    with pytest.raises(TypeError, match="cannot be stored"):
        as_json([object()])
