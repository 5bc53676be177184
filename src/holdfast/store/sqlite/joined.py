"""Enqueue inside a caller's own transaction, on an apsw connection to the same file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from holdfast.jobs.model import Enqueued, NewJob
from holdfast.store.joining import NoTransaction
from holdfast.store.sqlite.enqueue import enqueue_with
from holdfast.store.sqlite.transaction import Row

# Changes nothing and takes the write lock, so that what is read next cannot change before the
# jobs are written.
_TAKE_WRITE_LOCK = "UPDATE lanes SET held = held WHERE false"


def enqueue_on(
    path: Path, connection: object, jobs: Sequence[NewJob], now: float
) -> tuple[Enqueued, ...]:
    """Create `jobs` inside the transaction of `connection`; its owner commits or rolls back.

    Raises:
        TypeError: it is not an apsw connection to the file `path`.
        NoTransaction: it has no open transaction.
    """
    own = _checked(path, connection)

    def execute(sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        cursor = apsw.Cursor(own)
        cursor.row_trace = lambda _, row: row  # the caller's may turn rows into something else
        return cursor.execute(sql, parameters).fetchall()

    execute(_TAKE_WRITE_LOCK, {})
    return enqueue_with(execute, jobs, now)


def _checked(path: Path, connection: object) -> apsw.Connection:
    if not isinstance(connection, apsw.Connection):
        kind = type(connection)
        raise TypeError(
            f"connection= takes an apsw connection to {path}, got "
            f"{kind.__module__}.{kind.__qualname__}. Python's sqlite3, and SQLAlchemy or aiosqlite "
            "on top of it, bring a second copy of SQLite into the process, and two copies undo "
            "each other's file locks: commits would be lost. Enqueue without connection=, open "
            "the file with apsw.Connection (your own tables may live there), or keep the jobs in "
            "PostgreSQL"
        )
    # Older versions of apsw have no asynchronous mode.
    if getattr(connection, "is_async", False):
        raise TypeError("connection= takes an apsw connection in its ordinary mode, not async")
    file = connection.filename
    if not file or not path.samefile(file):
        raise TypeError(
            f"connection= is open on another file than {path}: only a transaction on the same "
            "file can hold both"
        )
    if not connection.in_transaction:
        raise NoTransaction(
            "this apsw connection has no open transaction to join: "
            "execute BEGIN IMMEDIATE first, or enqueue inside `with connection:`"
        )
    return connection
