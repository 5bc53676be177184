"""The transaction of a handler, which also completes its job."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw

from holdfast.clock import Clock
from holdfast.jobs.exceptions import ContextError, LostLease
from holdfast.jobs.model import Finished, Lease
from holdfast.jobs.store_values import TickResult, TransactionTooLong
from holdfast.store.sqlite.connection import connect, disconnect
from holdfast.store.sqlite.enqueue import check_connection
from holdfast.store.sqlite.tick import tick
from holdfast.store.sqlite.transaction import SQL, Row, Transaction
from holdfast.store.sqlite.write_loan import WriteLoan
from holdfast.store.sqlite.writer import Writer


class SQLiteTransaction:
    """Implements `AttemptTransaction` on an apsw connection.

    Args:
        lease: the lease of the attempt.
        source: the caller's own apsw connection, a function that opens one, or None.
        seconds: how long it may last.
    """

    def __init__(
        self,
        writer: Writer,
        path: Path,
        clock: Clock,
        lease: Lease,
        source: object,
        *,
        seconds: float,
        busy_timeout: float,
    ) -> None:
        self._writer = writer
        self._path = path
        self._clock = clock
        self._lease = lease
        self._source = source
        self._busy_timeout = busy_timeout
        self._loan = WriteLoan(path, self._open, seconds=seconds, busy_timeout=busy_timeout)
        self._connection: apsw.Connection | None = None
        self._close: Callable[[apsw.Connection], object] = self._loan.release
        self._has_begun = self._has_ended = False

    async def begin(
        self,
        *,
        blocking: bool = False,  # noqa: ARG002 - apsw blocks, and so suits every handler
    ) -> apsw.Connection:
        """Take the write lock, and return the connection."""
        if self._source is not None and not callable(self._source):
            self._check(self._source)
        self._has_begun = True
        self._writer.lend(self._loan)
        connection = await asyncio.wrap_future(self._loan.began)
        held = _execute(connection, SQL["transaction_lease"], _key(self._lease))
        if not held:
            await self.rollback()
            raise LostLease(self._lease.job_id)
        return connection

    async def complete(self, finished: Finished, *, now: float | None = None) -> TickResult:
        """Write the completion as a tick does, and commit."""

        def end(connection: apsw.Connection) -> tuple[TickResult, bool]:
            wall = self._clock.wall()
            rows = cast(apsw.Connection, _PlainRows(connection))
            tx = Transaction(rows, wall if now is None else now, wall - self._clock.monotonic())
            result = tick(tx, finished.lease.worker_id, (finished,), None, {})
            tx.flush()
            return result, not (result.refused or result.overruled)

        ending = self._loan.end(end)
        self._has_ended = True
        result: TickResult = await asyncio.wrap_future(ending)
        self._writer.files.check()
        return result

    def explain(self, error: BaseException) -> Exception | None:
        """Return what an error of apsw means, if the transaction was ended before."""
        return self._loan.why_ended() if isinstance(error, apsw.Error) else None

    async def rollback(self) -> None:
        """Roll back unless it is committed, and release the connection."""
        if self._has_begun and not self._has_ended:
            self._has_ended = True
            self._loan.began.cancel()  # if it waits for its turn
            with contextlib.suppress(TransactionTooLong):  # rolled back already
                ended = self._loan.end(None)
                if not self._loan.began.cancelled():
                    await asyncio.wrap_future(ended)
        connection, self._connection = self._connection, None
        if connection is not None:
            self._close(connection)

    def _open(self) -> apsw.Connection:
        source = self._source
        if source is None:
            self._close = disconnect
            connection = connect(self._path, busy_timeout=self._busy_timeout)
        elif callable(source):
            connection = self._check(source())
            self._close = apsw.Connection.close
        else:
            connection = self._check(source)
        self._connection = connection
        return connection

    def _check(self, connection: object) -> apsw.Connection:
        own = check_connection(self._path, connection)
        if own.in_transaction:
            raise ContextError(
                "this apsw connection has an open transaction; ctx.transaction() begins and "
                "commits one itself"
            )
        return own


class _PlainRows:
    """A caller's connection whose rows are tuples, whatever the caller's own row trace does."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.changes = connection.changes

    def execute(self, sql: str, parameters: Any = None) -> apsw.Cursor:
        cursor = apsw.Cursor(self._connection)
        cursor.row_trace = lambda _, row: row
        return cursor.execute(sql, parameters)


def _execute(connection: apsw.Connection, sql: str, parameters: dict[str, Any]) -> list[Row]:
    return _PlainRows(connection).execute(sql, parameters).fetchall()


def _key(lease: Lease) -> dict[str, Any]:
    return {"id": lease.job_id, "token": lease.token, "worker": lease.worker_id}
