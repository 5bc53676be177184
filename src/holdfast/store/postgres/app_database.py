"""The tables of apps in the database of the jobs: `engine.database` on PostgreSQL."""

import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Literal

import asyncpg

from holdfast.jobs.database_port import ENDED, READS_ONLY, Row
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreError, StoreUnavailable
from holdfast.store.block_statements import BlockStatements
from holdfast.store.control_statements import refuse_control
from holdfast.store.joining import join, numbered
from holdfast.store.postgres.connection import DRIVER_ERRORS, Connection, Database, store_error
from holdfast.store.postgres.handler_connections import HandlerConnections

_log = logging.getLogger("holdfast.store")

_NO_TRANSACTION = (
    "the transaction was ended inside its block, so this statement would be committed by itself: "
    "leave the end of the transaction to the block that began it"
)

Committed = Callable[[Sequence[NewJob]], Awaitable[None]]
"""Called with jobs that were enqueued in a transaction, after its commit."""


class PostgresStatements:
    """Implements `DatabaseTransaction` on an asyncpg connection; `where` names the database.

    No statement runs once the transaction has ended: it would be committed by itself.
    """

    def __init__(self, connection: Connection, where: str) -> None:
        self.connection = connection
        self._where = where

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement and return its rows."""
        refuse_control(sql, "postgresql")
        with translated(self._where):
            self._check_open()
            return await _fetch(self.connection, sql, parameters or {})

    async def execute_many(self, sql: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once for each of `parameters`."""
        refuse_control(sql, "postgresql")
        text, names = numbered(sql)
        every = [[each[name] for name in names] for each in parameters]
        with translated(self._where):
            self._check_open()
            await self.connection.executemany(text, every)

    def _check_open(self) -> None:
        # On a connection that is gone the statement itself fails, as an outage.
        if not self.connection.is_closed() and not self.connection.is_in_transaction():
            raise ContextError(_NO_TRANSACTION)


class PostgresDatabase:
    """Implements `Database` for a store that is open.

    Args:
        database: the store's own connections.
        connections: lends those for transactions.
        timeout: seconds to wait for a connection.
        most: how many connections may read at once.
        committed: called after the commit of a transaction in which jobs were enqueued.
    """

    dialect: Literal["postgresql"] = "postgresql"

    def __init__(
        self,
        database: Database,
        connections: HandlerConnections,
        *,
        timeout: float,
        most: int,
        committed: Committed,
    ) -> None:
        self._database = database
        self._connections = connections
        self._reads = HandlerConnections(database, most, reads=True)
        self._timeout = timeout
        self._committed = committed
        self._enqueued: dict[Connection, list[NewJob]] = {}

    def close(self) -> None:
        """Disconnect those that read; statements that run are cut."""
        self._reads.close()

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement that only reads, and return its rows."""
        self._database.check_open()
        try:
            with translated(self._database.where):
                async with self._reads.lend(self._timeout) as connection:
                    if not self._database.pooled:
                        return await _fetch(connection, sql, parameters or {})
                    # The session is shared, so a setting must not outlive the transaction.
                    async with connection.transaction(isolation="read_committed", readonly=True):
                        return await _fetch(connection, sql, parameters or {})
        except StoreError as error:
            if isinstance(error.__cause__, asyncpg.ReadOnlySQLTransactionError):
                raise ValueError(READS_ONLY) from error
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[BlockStatements]:
        """Begin a transaction; the end of the block commits it."""
        self._database.check_open()
        failure: Exception | None = None
        jobs: list[NewJob] = []
        async with self._connections.lend(self._timeout) as connection:
            transaction = connection.transaction(isolation="read_committed")
            with translated(self._database.where):
                await transaction.start()
            self._enqueued[connection] = jobs
            statements = BlockStatements(
                PostgresStatements(connection, self._database.where), gives_connection=True
            )
            try:
                yield statements
                statements.end_idle()
            except Exception as error:
                # Raised below, so that the connection can be used again.
                failure = _explained(error, self._database.where)
            finally:
                statements.end()
                del self._enqueued[connection]
            await self._end(connection, transaction, commits=failure is None)
        if failure is not None:
            raise failure
        if jobs:
            try:
                await self._committed(jobs)
            except StoreError as error:
                _log.warning("after a transaction of an app was committed: %s", error)

    async def _end(self, connection: Connection, transaction: Any, *, commits: bool) -> None:
        if not commits:
            # The error inside the block matters more; a server rolls back what is disconnected.
            with suppress(*DRIVER_ERRORS):
                await transaction.rollback()
            return
        if not connection.is_closed() and not connection.is_in_transaction():
            raise ContextError(ENDED)
        with translated(self._database.where):
            await transaction.commit()

    def lends(self, connections: HandlerConnections) -> bool:
        """Say whether its transactions run on `connections`."""
        return connections is self._connections

    def joined(self, connection: object) -> PostgresStatements:
        """Return the transaction that `connection` is in."""
        if not isinstance(connection, asyncpg.Connection):
            kind = type(connection)
            raise TypeError(
                f"database.joined() takes the connection that ctx.transaction() opens itself, got "
                f"{kind.__module__}.{kind.__qualname__}: use that one's own methods"
            )
        join(connection)
        return PostgresStatements(connection, self._database.where)

    def note_enqueued(self, connection: object, jobs: Sequence[NewJob]) -> None:
        """Remember `jobs` if they were enqueued in a transaction that was begun here."""
        if isinstance(connection, asyncpg.Connection) and connection in self._enqueued:
            self._enqueued[connection].extend(jobs)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn the driver's errors into those of the store at `where`."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise store_error(error, where) from error


def _explained(error: Exception, where: str) -> Exception:
    """Return an outage as such, also where the block has used the driver's connection itself."""
    if isinstance(
        error, asyncpg.PostgresError | asyncpg.InterfaceError | asyncpg.InternalClientError
    ):
        meant = store_error(error, where)
        if isinstance(meant, StoreUnavailable):
            meant.__cause__ = error
            return meant
    return error


async def _fetch(connection: Connection, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    text, names = numbered(sql)
    rows = await connection.fetch(text, *(parameters[name] for name in names))
    return [tuple(row) for row in rows]
