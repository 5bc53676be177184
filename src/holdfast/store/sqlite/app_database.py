"""The tables of apps in the file of the jobs: `engine.database` on SQLite.

No statement of an app runs on the event loop: reads have threads of their own, beside those that
read jobs, and the statements of a transaction run in a thread while the writer lends its lock.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import apsw

from holdfast.jobs.database_port import ENDED, READS_ONLY, Row
from holdfast.jobs.store_port import StoreError
from holdfast.store.block_statements import BlockStatements
from holdfast.store.control_statements import refuse_control
from holdfast.store.joining import NoTransaction
from holdfast.store.sqlite.connection import disconnect, translated
from holdfast.store.sqlite.enqueue import check_connection
from holdfast.store.sqlite.lent_transaction import LentTransaction, execute, plain_cursor
from holdfast.store.sqlite.read_pool import ReadPool
from holdfast.store.sqlite.write_loan import LoanWords
from holdfast.store.sqlite.writer import Writer

T = TypeVar("T")

SECONDS = 3.0
"""How long a transaction may hold the write lock."""

_WORDS = LoanWords(
    "a transaction of engine.database",
    ENDED,
    "Do slow work before the block; inside, enqueue with connection=tx.connection, and wait for no "
    "other write of the store",
)
_MOST_KEPT = 2
"""Connections that are kept: the next transaction begins before the last one has returned its own.
"""


class StatementThreads:
    """Run the statements of lent transactions. At most one is lent at a time."""

    def __init__(self) -> None:
        # One more, for a statement whose task was cancelled and that is being interrupted.
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="holdfast-statement")

    async def run(self, work: Callable[[], T]) -> T:
        """Return `work()`, called in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """End the threads when their statements have ended."""
        self._pool.shutdown(wait=False)


class Runner(Protocol):
    """Run a function outside the event loop, as `StatementThreads.run` does."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Return what `work()` returns."""
        ...


class SQLiteStatements:
    """Implements `DatabaseTransaction` on an apsw connection."""

    def __init__(self, connection: apsw.Connection, path: Path, run: Runner) -> None:
        self.connection = connection
        self._path = path
        self._run = run

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement and return its rows."""
        refuse_control(sql, "sqlite")
        with translated(self._path):
            return await self._run(partial(execute, self.connection, sql, parameters or {}))

    async def execute_many(self, sql: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once for each of `parameters`."""
        refuse_control(sql, "sqlite")
        every = list(parameters)
        with translated(self._path):
            await self._run(
                lambda: plain_cursor(self.connection).executemany(sql, every).fetchall()
            )


class SQLiteBlockStatements(BlockStatements):
    """Statements that run in threads, where one still runs after its task was cancelled."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        run: Runner,
        *,
        gives_connection: bool = False,
    ) -> None:
        statements = SQLiteStatements(connection, path, self._run_in_time)
        super().__init__(statements, gives_connection=gives_connection)
        self._run = run
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether a statement is running, or waits for its thread."""
        return super().is_running or self._lock.locked()

    async def _run_in_time(self, work: Callable[[], T], /) -> T:
        return await self._run(partial(self._in_time, work))

    def _in_time(self, work: Callable[[], T]) -> T:
        with self._lock:
            self.check()
            return work()


class _LastingChanges:
    """Notes, as an authorizer, statements whose effect outlives their transaction.

    SQLite asks when it prepares a statement, so one of the statement cache costs nothing.
    """

    found = False

    def __call__(
        self, action: int, _name: str | None, value: str | None, schema: str | None, _: str | None
    ) -> int:
        """Allow the statement."""
        # A pragma without a value only reads: full-text search reads one on every connection.
        sets = action == apsw.SQLITE_PRAGMA and value is not None
        attaches = action in {apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH}
        if schema == "temp" or sets or attaches:
            self.found = True
        return apsw.SQLITE_OK


class KeptConnections:
    """Connections of blocks that have ended, kept for the transactions after theirs.

    A new one reads the whole schema, and prepares every statement anew. One on which a block made
    a temporary table, set a pragma or attached a file is closed: the next would meet it.
    """

    def __init__(self) -> None:
        self._idle: list[apsw.Connection] = []
        self._is_closed = False

    def take(self) -> apsw.Connection | None:
        """Return one that is idle, if there is one; called on the writer's thread."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def watch(self, connection: apsw.Connection) -> None:
        """Note from now on what blocks change in a new one."""
        connection.authorizer = _LastingChanges()

    def keep(self, connection: apsw.Connection) -> None:
        """Keep one that was watched and is in no transaction, or close it."""
        changes = connection.authorizer
        # A block that has the connection may have set an authorizer of its own.
        is_unchanged = isinstance(changes, _LastingChanges) and not changes.found
        if not is_unchanged or self._is_closed or len(self._idle) >= _MOST_KEPT:
            disconnect(connection)
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Close those that are idle, and later those that are still in use."""
        self._is_closed = True
        while (connection := self.take()) is not None:
            disconnect(connection)


class SQLiteDatabase:
    """Implements `Database` on the file of a store that is open.

    Attributes:
        kept: the connections of transactions that are given to handlers as statements only. Those
            of `transaction()` are apart from them, as their blocks get the connection too.
    """

    dialect: Literal["sqlite"] = "sqlite"

    def __init__(
        self, path: Path, writer: Writer, reads: ReadPool, run: Runner, busy_timeout: float
    ) -> None:
        self._path = path
        self._writer = writer
        self._reads = reads
        self._run = run
        self._busy_timeout = busy_timeout
        self._lent: set[apsw.Connection] = set()
        self._own = KeptConnections()
        self.kept = KeptConnections()

    def close(self) -> None:
        """Close the connections that are kept for the next transactions."""
        self._own.close()
        self.kept.close()

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement that only reads, and return its rows."""
        given = dict(parameters or {})
        try:
            return await self._reads.read(lambda view: view.execute(sql, given))
        except StoreError as error:
            if isinstance(error.__cause__, apsw.ReadOnlyError):
                raise ValueError(READS_ONLY) from error
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SQLiteBlockStatements]:
        """Begin a transaction; the end of the block commits it."""
        lent = _OwnTransaction(self._writer, self._path, self._own, busy_timeout=self._busy_timeout)
        try:
            connection = await lent.begin()
            self._lent.add(connection)
            statements = SQLiteBlockStatements(
                connection, self._path, self._run, gives_connection=True
            )
            try:
                yield statements
                statements.end_idle()
            except BaseException as error:
                meant = lent.explain(error)
                if meant is None:
                    raise
                raise meant from error
            finally:
                statements.end()
                self._lent.discard(connection)
            await lent.commit()
        finally:
            await lent.rollback()

    def is_of(self, writer: Writer) -> bool:
        """Say whether `writer` writes into this database."""
        return writer is self._writer

    def statements_of(self, connection: apsw.Connection) -> SQLiteBlockStatements:
        """Return the statements of a handler's transaction on `connection`."""
        return SQLiteBlockStatements(connection, self._path, self._run)

    def joined(self, connection: object) -> SQLiteStatements:
        """Return the transaction that `connection` is in."""
        own = check_connection(self._path, connection)
        if not own.in_transaction:
            raise NoTransaction("this apsw connection has no open transaction to join")
        return SQLiteStatements(own, self._path, self._run)

    def lends(self, connection: object) -> bool:
        """Say whether `connection` is that of a transaction begun here."""
        return isinstance(connection, apsw.Connection) and connection in self._lent


class _OwnTransaction(LentTransaction):
    """Returns its connection to `kept` after a commit."""

    def __init__(
        self, writer: Writer, path: Path, kept: KeptConnections, *, busy_timeout: float
    ) -> None:
        super().__init__(writer, path, seconds=SECONDS, busy_timeout=busy_timeout, words=_WORDS)
        self._kept = kept

    async def begin(self) -> apsw.Connection:
        return await self._begin()

    async def commit(self) -> None:
        await self._end(lambda _: (None, True))
        connection, self._connection = self._connection, None
        assert connection is not None
        self._loan.release(connection)
        self._kept.keep(connection)

    def _open(self) -> apsw.Connection:
        self._connection = self._kept.take()
        if self._connection is None:
            self._kept.watch(super()._open())
        assert self._connection is not None
        return self._connection
