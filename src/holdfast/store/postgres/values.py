"""Small things that several rooms of this store share."""

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


def shared(column: list[Any]) -> list[Any]:
    """Return a column of one value where all are the same: the functions take it for all rows.

    asyncpg looks at every element of an array, so the shortest is the best.
    """
    return column[:1] if column.count(column[0]) == len(column) else column


def sparse(column: list[Any]) -> list[Any] | None:
    """Return None for a column without a value."""
    return None if column.count(None) == len(column) else column


def check_text(what: str, text: str | None) -> None:
    """Refuse what PostgreSQL's text cannot hold, in words.

    Raises:
        ValueError: it holds a NUL character or half of a surrogate pair.
    """
    if clean_or_none(text) != text:
        raise ValueError(f"{what} holds a NUL character or a lone surrogate")
