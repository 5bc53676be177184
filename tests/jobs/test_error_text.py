"""Exceptions formatted as one line."""

import pytest

from holdfast.errors import Permanent
from holdfast.jobs.error_text import clean, one_line


@pytest.mark.parametrize(
    "error, line",
    [
        (ValueError("two\nlines"), "ValueError: two lines"),
        (ValueError(), "ValueError"),
        (Permanent("PARSE_ERROR", "as it is"), "as it is"),
        (ValueError("nul\0 and \ud800"), "ValueError: nul and ?"),
    ],
)
def test_an_error_is_one_line_that_any_store_accepts(error, line):
    assert one_line(error) == line


def test_a_long_message_is_cut():
    assert len(clean("x" * 10_000)) == 500


def test_an_error_without_a_message_is_shown_by_its_type():
    class Rude(Exception):
        def __str__(self):
            raise RuntimeError

    assert one_line(Rude()).startswith("Rude")
