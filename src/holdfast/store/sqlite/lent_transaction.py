"""A transaction on a connection that the writer lends, from its begin to its end."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

from holdfast.jobs.store_values import TransactionTooLong
from holdfast.store.sqlite.connection import connect, disconnect
from holdfast.store.sqlite.write_loan import HANDLER, Ending, LoanWords, WriteLoan
from holdfast.store.sqlite.writer import Writer


class LentTransaction:
    """Begin a transaction when it is its turn, and end it. Await its methods on an event loop.

    Args:
        writer: lends the write lock.
        path: the database file.
        seconds: how long the transaction may last.
        busy_timeout: seconds to wait for another process.
        words: how error messages speak of it.
    """

    def __init__(
        self,
        writer: Writer,
        path: Path,
        *,
        seconds: float,
        busy_timeout: float,
        words: LoanWords = HANDLER,
    ) -> None:
        self._writer = writer
        self._path = path
        self._busy_timeout = busy_timeout
        self._loan = WriteLoan(
            path, self._open, seconds=seconds, busy_timeout=busy_timeout, words=words
        )
        self._connection: apsw.Connection | None = None
        self._has_begun = self._has_ended = False

    async def _begin(self) -> apsw.Connection:
        """Take the write lock and return the connection."""
        self._has_begun = True
        self._writer.lend(self._loan)
        return await asyncio.wrap_future(self._loan.began)

    async def _end(self, ending: Ending) -> Any:
        """Execute the last statements on the writer's thread, and commit if they say so."""
        ended = self._loan.end(ending)
        self._has_ended = True
        value = await asyncio.wrap_future(ended)
        self._writer.files.check()
        return value

    def explain(self, error: BaseException) -> Exception | None:
        """Return what an error of apsw means, if the transaction was ended before."""
        of_apsw = isinstance(error, apsw.Error) or isinstance(error.__cause__, apsw.Error)
        return self._loan.why_ended() if of_apsw else None

    async def rollback(self) -> None:
        """Roll back unless it is committed, and release the connection. Harmless if repeated."""
        if self._has_begun and not self._has_ended:
            self._has_ended = True
            self._loan.began.cancel()  # if it waits for its turn
            with contextlib.suppress(TransactionTooLong):  # rolled back already
                ended = self._loan.end(None)
                if not self._loan.began.cancelled():
                    await asyncio.wrap_future(ended)
        connection, self._connection = self._connection, None
        if connection is not None:
            self._return(connection)

    def _return(self, connection: apsw.Connection) -> None:
        """Close what `_open` returned."""
        disconnect(connection)

    def _open(self) -> apsw.Connection:
        """Return a connection of the store's own; called on the writer's thread."""
        connection = connect(self._path, busy_timeout=self._busy_timeout)
        # The tables of apps may refer to each other, and PostgreSQL always enforces it.
        connection.execute("PRAGMA foreign_keys = ON").fetchall()
        self._connection = connection
        return connection


def plain_cursor(connection: apsw.Connection) -> apsw.Cursor:
    """Return a cursor whose rows are tuples, whatever the caller's own row trace does."""
    cursor = apsw.Cursor(connection)
    cursor.row_trace = lambda _, row: row
    return cursor


def execute(
    connection: apsw.Connection, sql: str, parameters: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows as tuples."""
    return plain_cursor(connection).execute(sql, parameters).fetchall()
