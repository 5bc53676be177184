"""Cursors: the position in a list to continue from."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store import cursors

NUMBERS = st.integers(-(2**61), 2**61) | st.floats(-1e18, 1e18)


@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_a_position_is_decoded_unchanged(place):
    assert cursors.decode(cursors.encode(*place), len(place)) == place


def raw(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "", "!", "ü", "bm90IGpzb24", raw(7), raw(None), raw("ab"), raw({"a": 1}), raw([]),
        raw([1, 2, 3]), raw([1]), raw([1, "2"]), raw([1, None]), raw([1, 2**62]),
        raw([-(2**62), 1]), raw([1, float("nan")]),
    ],
)  # fmt: skip
def test_an_invalid_cursor_is_refused(cursor):
    with pytest.raises(ValueError, match="not a cursor of this list"):
        cursors.decode(cursor, 2)


def test_a_cursor_can_be_used_in_a_url():
    assert cursors.encode(1e300, 2**61 - 1).replace("-", "").replace("_", "").isalnum()
