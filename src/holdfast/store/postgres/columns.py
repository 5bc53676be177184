"""Columns of rows, as arrays that functions in the database take; and texts they are given."""

from typing import Any

from holdfast.errors import ERRORS, ErrorCode
from holdfast.jobs.model import JobError
from holdfast.jobs.views import normalise_error
from holdfast.store.text import clean_or_none

PAGE = 10_000
"""Lines that a page of history has room for, and so jobs that one statement may move."""

LEASE_LOST = JobError(ErrorCode.LEASE_LOST, ERRORS[ErrorCode.LEASE_LOST].message)

_TIMED_OUT = ERRORS[ErrorCode.TIMEOUT].message
TIMED_OUT = (_TIMED_OUT, normalise_error(_TIMED_OUT))
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
