"""The transaction of a handler, which also completes its job."""

from pathlib import Path
from typing import Any, cast

import apsw

from holdfast.clock import Clock
from holdfast.jobs.exceptions import ContextError, LostLease
from holdfast.jobs.model import Finished, Lease
from holdfast.jobs.store_values import TickResult
from holdfast.store.attempt_statements import NEEDS_ASYNC, AttemptStatements
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
        self._statements: AttemptStatements | None = None

    async def begin(self, *, blocking: bool = False) -> apsw.Connection | AttemptStatements:
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
            self._statements.end()

        def end(connection: apsw.Connection) -> tuple[TickResult, bool]:
            wall = self._clock.wall()
            rows = cast(apsw.Connection, _PlainRows(connection))
            tx = Transaction(rows, wall if now is None else now, wall - self._clock.monotonic())
            result = tick(tx, finished.lease.worker_id, (finished,), None, {})
            tx.flush()
            return result, not (result.refused or result.overruled)

        result: TickResult = await self._end(end)
        if self._database is not None and not (result.refused or result.overruled):
            self._close = self._keep
        return result

    def _keep(self, connection: apsw.Connection) -> None:
        """Leave the connection to the next transaction."""
        assert self._database is not None
        self._loan.release(connection)
        self._database.unlent.keep(connection)

    def _open(self) -> apsw.Connection:
        source = self._source
        if self._database is not None:
            self._connection = self._database.unlent.take()
            return self._connection or super()._open()
        if source is None:
            return super()._open()
        opens = callable(source)
        connection = self._check(source() if callable(source) else source)
        self._close = apsw.Connection.close if opens else self._loan.release
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
        return plain_cursor(self._connection).execute(sql, parameters)


def _key(lease: Lease) -> dict[str, Any]:
    return {"id": lease.job_id, "token": lease.token, "worker": lease.worker_id}
