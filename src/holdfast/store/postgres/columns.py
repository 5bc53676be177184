"""Columns of rows, as arrays that functions in the database take; and texts they are given."""

from typing import Any

from holdfast.jobs.report_rules import TIMED_OUT
from holdfast.store.error_columns import error_columns
from holdfast.store.text import clean_or_none

PAGE = 10_000
"""Lines that a page of history has room for, and so jobs that one statement may move."""

TIMEOUT_COLUMNS = error_columns(TIMED_OUT)[1:]
"""Message and group of `TIMEOUT`, as the functions in the database take them."""


def one_if_equal(column: list[Any]) -> list[Any]:
    """Return one value where all are equal: the functions take it for all rows.

    Encoding an array costs time per element on both sides, and most columns of a bulk are equal.
    """
    return column[:1] if column.count(column[0]) == len(column) else column


def none_if_empty(column: list[Any]) -> list[Any] | None:
    """Return None for a column without a value."""
    return None if column.count(None) == len(column) else column


def check_text(what: str, text: str | None) -> None:
    """Refuse text that PostgreSQL cannot store.

    Raises:
        ValueError: it holds a NUL character or half of a surrogate pair.
    """
    if clean_or_none(text) != text:
        raise ValueError(f"{what} holds a NUL character or a lone surrogate")
