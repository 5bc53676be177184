"""The database drivers that `with_database_transaction` takes, each behind the same few methods."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import psycopg_pool
import sqlalchemy
import sqlalchemy.ext.asyncio as sqlalchemy_async
import sqlalchemy.orm
import sqlalchemy.pool

from holdfast import RetryResult, RetryService
from holdfast.providers import with_database_transaction, with_database_transaction_sync
from holdfast.testing import VirtualClock

Step = Callable[[int], str | None]
"""Is given the number of the attempt; returns a statement to run, or None."""


@dataclass(frozen=True)
class Driver:
    """A driver, or one form of its connections.

    Args:
        name: for the test's id.
        server: whether its database is on PostgreSQL, otherwise a file.
        source: returns the source of connections for a URL or path.
        execute: runs a statement on a connection.
        blocks: whether it blocks.
        done: closes the source.
    """

    name: str
    server: bool
    source: Callable[[str], Any]
    execute: Callable[[Any, str], Any]
    blocks: bool
    done: Callable[[Any], Any] = lambda _: None

    def run(
        self,
        where: str,
        *steps: Step,
        caught: str | None = None,
        service: RetryService | None = None,
        **options: Any,
    ) -> RetryResult[int]:
        """Run `steps` in a transaction and return the result; its value is the attempt's number.

        The function catches the error of the statement `caught`, its last one.
        """
        service = service or RetryService(clock=VirtualClock())
        attempts = 0

        def work(connection: Any) -> int:
            nonlocal attempts
            attempts += 1
            number = attempts
            for step in steps:
                if (sql := step(number)) is not None:
                    self.execute(connection, sql)
            with suppress(Exception):
                if caught is not None:
                    self.execute(connection, caught)
            return number

        async def work_async(connection: Any) -> int:
            nonlocal attempts
            attempts += 1
            number = attempts
            for step in steps:
                if (sql := step(number)) is not None:
                    await self.execute(connection, sql)
            with suppress(Exception):
                if caught is not None:
                    await self.execute(connection, caught)
            return number

        async def scenario() -> RetryResult[int]:
            source = self.source(where)
            if isinstance(source, asyncpg.Pool):
                await source
            try:
                return await with_database_transaction(
                    source, work_async, "work", service=service, **options
                )
            finally:
                await _awaited(self.done(source))

        if not self.blocks:
            return asyncio.run(scenario())
        source = self.source(where)
        try:
            return with_database_transaction_sync(source, work, "work", service=service, **options)
        finally:
            self.done(source)


async def _awaited(value: Any) -> None:
    if value is not None:
        await value


def always(sql: str) -> Step:
    """Run `sql` in every attempt."""
    return lambda _: sql


def once(sql: str) -> Step:
    """Run `sql` in the first attempt only."""
    return lambda number: sql if number == 1 else None


def _connect(where: str) -> Any:
    if where.startswith("postgresql"):
        return psycopg.connect(where, autocommit=True)
    return sqlite3.connect(where)


def rows(where: str, sql: str = "SELECT id FROM things ORDER BY id") -> list[Any]:
    """Return the first column of what `sql` finds."""
    with closing(_connect(where)) as connection:
        return [row[0] for row in connection.execute(sql).fetchall()]


def create(where: str) -> None:
    """Create the table `things`."""
    with closing(_connect(where)) as connection:
        connection.execute("CREATE TABLE things (id int PRIMARY KEY, n int)")


@asynccontextmanager
async def _asyncpg_connection(where: str) -> Any:
    connection = await asyncpg.connect(where)
    try:
        yield connection
    finally:
        await connection.close()


def _engine(where: str, driver: str) -> Any:
    url = where.replace("postgresql://", f"postgresql+{driver}://")
    if url == where:
        url = f"sqlite+{driver}:///{where}"
    pool = sqlalchemy.pool.NullPool
    if driver in ("asyncpg", "aiosqlite"):
        return sqlalchemy_async.create_async_engine(url, poolclass=pool)
    return sqlalchemy.create_engine(url, poolclass=pool)


async def _on_session(session: Any, sql: str) -> None:
    await (await session.connection()).exec_driver_sql(sql)


def _plain(connection: Any, sql: str) -> Any:
    return connection.execute(sql)


def _core(connection: Any, sql: str) -> Any:
    return connection.exec_driver_sql(sql)


def _orm(session: Any, sql: str) -> Any:
    return session.connection().exec_driver_sql(sql)


def _pool(where: str) -> Any:
    return psycopg_pool.ConnectionPool(where, min_size=1, max_size=2, open=True)


DRIVERS = (
    Driver("sqlite3", False, lambda where: lambda: sqlite3.connect(where), _plain, True),
    Driver("psycopg", True, lambda where: lambda: psycopg.connect(where), _plain, True),
    Driver(
        "psycopg autocommit", True,
        lambda where: lambda: psycopg.connect(where, autocommit=True), _plain, True,
    ),
    Driver("psycopg pool", True, _pool, _plain, True, lambda pool: pool.close()),
    Driver(
        "SQLAlchemy engine", True, lambda where: _engine(where, "psycopg"), _core, True,
        lambda engine: engine.dispose(),
    ),
    Driver(
        "SQLAlchemy session on a file", False,
        lambda where: sqlalchemy.orm.sessionmaker(_engine(where, "pysqlite")), _orm, True,
    ),
    Driver("asyncpg", True, lambda where: lambda: asyncpg.connect(where), _plain, False),
    Driver(
        "asyncpg context manager", True,
        lambda where: lambda: _asyncpg_connection(where), _plain, False,
    ),
    Driver(
        "asyncpg pool", True,
        lambda where: asyncpg.create_pool(where, min_size=0, max_size=2), _plain, False,
        lambda pool: pool.close(),
    ),
    Driver(
        "async psycopg", True,
        lambda where: lambda: psycopg.AsyncConnection.connect(where), _plain, False,
    ),
    Driver(
        "async psycopg autocommit", True,
        lambda where: lambda: psycopg.AsyncConnection.connect(where, autocommit=True), _plain,
        False,
    ),
    Driver(
        "async SQLAlchemy engine", True, lambda where: _engine(where, "asyncpg"), _core, False,
        lambda engine: engine.dispose(),
    ),
    Driver(
        "async SQLAlchemy session on a file", False,
        lambda where: sqlalchemy_async.async_sessionmaker(_engine(where, "aiosqlite")),
        _on_session, False,
    ),
)  # fmt: skip
ON_SERVER = tuple(driver for driver in DRIVERS if driver.server)
BLOCKING = tuple(driver for driver in DRIVERS if driver.blocks)
