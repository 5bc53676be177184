"""The transaction of a handler, which also completes its job."""

from pathlib import Path
from typing import Any, cast

import apsw

from holdfast.clock import Clock
from holdfast.jobs.exceptions import ContextError, LostLease
from holdfast.jobs.model import Finished, Lease
from holdfast.jobs.store_values import TickResult
from holdfast.store.block_statements import NEEDS_ASYNC, BlockStatements
from holdfast.store.sqlite.app_database import SQLiteDatabase
from holdfast.store.sqlite.enqueue import check_connection
from holdfast.store.sqlite.lent_transaction import LentTransaction, execute, plain_cursor
from holdfast.store.sqlite.tick import tick
from holdfast.store.sqlite.transaction import SQL, Transaction
from holdfast.store.sqlite.writer import Writer


class SQLiteTransaction(LentTransaction):
    """Implements `AttemptTransaction` on an apsw connection.

    Args:
        lease: the lease of the attempt.
        source: the caller's own apsw connection, a function that opens one, the store's
            `database` for its statements only, or None.
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
        super().__init__(writer, path, seconds=seconds, busy_timeout=busy_timeout)
        self._clock = clock
        self._lease = lease
        self._source = source
        is_own = isinstance(source, SQLiteDatabase) and source.is_of(writer)
        self._database = cast(SQLiteDatabase, source) if is_own else None
        self._statements: BlockStatements | None = None
        self._is_committed = False

    async def begin(self, *, blocking: bool = False) -> apsw.Connection | BlockStatements:
        """Take the write lock, and return the connection, or the statements on it."""
        source, database = self._source, self._database
        if database is not None and blocking:
            raise ContextError(NEEDS_ASYNC)
        if source is not None and database is None and not callable(source):
            self._check(source)
        connection = await self._begin()
        held = execute(connection, SQL["transaction_lease"], _key(self._lease))
        if not held:
            await self.rollback()
            raise LostLease(self._lease.job_id)
        if database is None:
            return connection
        self._statements = database.statements_of(connection)
        return self._statements

    async def complete(self, finished: Finished, *, now: float | None = None) -> TickResult:
        """Write the completion as a tick does, and commit."""
        if self._statements is not None:
            self._statements.end_idle()

        def end(connection: apsw.Connection) -> tuple[TickResult, bool]:
            wall = self._clock.wall()
            rows = cast(apsw.Connection, _PlainRows(connection))
            tx = Transaction(rows, wall if now is None else now, wall - self._clock.monotonic())
            result = tick(tx, finished.lease.worker_id, (finished,), None, {})
            tx.flush()
            return result, not (result.refused or result.overruled)

        result: TickResult = await self._end(end)
        self._is_committed = not (result.refused or result.overruled)
        return result

    async def rollback(self) -> None:
        """Roll back unless it is committed, and release the connection. Harmless if repeated."""
        if self._statements is not None:
            self._statements.end()
        await super().rollback()

    def _return(self, connection: apsw.Connection) -> None:
        """Close the connection, unless it is the caller's own or can serve the next transaction."""
        if self._database is not None and self._is_committed:
            self._loan.release(connection)
            self._database.kept.keep(connection)
        elif self._database is not None or self._source is None:
            super()._return(connection)
        elif callable(self._source):
            connection.close()
        else:
            self._loan.release(connection)

    def _open(self) -> apsw.Connection:
        source = self._source
        if self._database is not None:
            self._connection = self._database.kept.take()
            if self._connection is None:
                self._database.kept.watch(super()._open())
            return cast(apsw.Connection, self._connection)
        if source is None:
            return super()._open()
        self._connection = self._check(source() if callable(source) else source)
        return self._connection

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
        return plain_cursor(self._connection).execute(sql, parameters)


def _key(lease: Lease) -> dict[str, Any]:
    return {"id": lease.job_id, "token": lease.token, "worker": lease.worker_id}
