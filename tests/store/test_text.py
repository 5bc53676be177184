"""Text that a database can hold."""

import pytest

from holdfast.store.text import clean, clean_or_none


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("plain", "plain"),
        ("größer ✓ 😀", "größer ✓ 😀"),
        ("a\x00b", "a\ufffdb"),
        ("ä\x00", "ä\ufffd"),
        ("\ud800 alone", "? alone"),
    ],
)
def test_only_characters_that_cannot_be_stored_are_replaced(given, kept):
    assert clean(given) == clean_or_none(given) == kept


def test_none_stays_none():
    assert clean_or_none(None) is None
