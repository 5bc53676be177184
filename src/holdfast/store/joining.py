"""Join a caller's own transaction on a database server: `connection=` of enqueue.

`join` takes a connection or session of any driver that Holdfast knows and returns a `Joined`, whose
one method runs a statement inside the caller's transaction. Nothing here begins, commits or rolls
back: the connection's owner does, and what was enqueued shares the fate of the transaction.

A connection in autocommit mode without an open transaction is refused, because it would commit
every statement by itself. psycopg and SQLAlchemy open a transaction before the first statement
by default, so theirs need not be open yet.

Statements have named parameters (`:name`). Drivers are recognised by their classes and are never
imported here: if a driver is not loaded, no connection of it exists. The SQLite store takes only
apsw connections and has its own code for them, in `store.sqlite.enqueue`.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from holdfast.jobs.callers_thread import in_callers_thread, is_waiting

__all__ = ["Joined", "NoTransaction", "execute_now", "join", "join_and_execute", "numbered"]

ACCEPTED = (
    "an asyncpg connection, a psycopg connection (sync or async), "
    "or an SQLAlchemy Connection, Session, AsyncConnection or AsyncSession"
)

Row = tuple[Any, ...]

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_AUTOCOMMIT = "AUTOCOMMIT"


class NoTransaction(ValueError):
    """The connection has no transaction to join."""


class Joined(Protocol):
    """A caller's transaction. `database` is the SQLAlchemy name of its system: "postgresql"."""

    @property
    def database(self) -> str:
        """Return the name of the database system."""
        ...

    @property
    def blocks(self) -> bool:
        """Say whether `execute` blocks the event loop for as long as the database takes."""
        ...

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Run one statement that returns rows, with named parameters (`:name`).

        The driver's errors reach the caller unchanged, who must end the transaction.
        """
        ...


def join(connection: object) -> Joined:
    """Return the transaction that `connection` is in.

    Raises:
        TypeError: it does not belong to a driver that Holdfast knows.
        NoTransaction: it is in autocommit mode and has no open transaction.
    """
    for module, name, make in _KNOWN:
        if isinstance(connection, loaded_class(module, name)):
            return make(connection)
    raise unknown_driver("connection=", connection)


async def join_and_execute(
    connection: object, sql: str, parameters: Mapping[str, Any], database: str
) -> tuple[Joined, list[Row]]:
    """Return the transaction that `connection` is in, and the rows of a statement inside of it.

    Both steps are one call in the thread of a blocking caller: each change of threads costs about
    as much as a statement. No statement is run, and no rows are returned, where the transaction is
    not one of `database`.

    Raises:
        TypeError, NoTransaction: as `join`.
    """

    def begin() -> tuple[Joined, list[Row] | None]:
        joined = join(connection)
        if joined.database != database:
            return joined, []
        if isinstance(joined, _BlockingDriver):
            return joined, joined.fetch(joined.connection, sql, parameters)
        return joined, None

    joined, rows = await in_callers_thread(begin)
    return joined, await joined.execute(sql, parameters) if rows is None else rows


def execute_now(
    connection: object, sql: str, parameters: Mapping[str, Any], database: str
) -> list[Row] | None:
    """Return the rows of a statement inside the transaction of `connection`, run in this thread.

    None, and no statement is run, where the driver must be awaited or the transaction is not one
    of `database`.

    Raises:
        TypeError, NoTransaction: as `join`.
    """
    joined = join(connection)
    if joined.database != database or not isinstance(joined, _BlockingDriver):
        return None
    return joined.fetch(joined.connection, sql, parameters)


def loaded_class(module: str, name: str) -> Any:
    """Return a class of a driver, or what no object is an instance of if it is not loaded."""
    return getattr(sys.modules.get(module), name, ())


def unknown_driver(what: str, connection: object) -> TypeError:
    """Return the error for a `connection` of no known driver, given to `what`."""
    kind = type(connection)
    return TypeError(
        f"{what} does not take {kind.__module__}.{kind.__qualname__}; it takes {ACCEPTED}"
    )


@lru_cache(maxsize=256)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return `sql` with `$1`, `$2`, ... in place of its named parameters, and their names."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return _PARAMETER.sub(number, sql), tuple(names)


@lru_cache(maxsize=256)
def pyformat(sql: str) -> str:
    """Return `sql` with `%(name)s` in place of its named parameters."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


@dataclass(frozen=True, slots=True)
class _AsyncDriver:
    """A driver whose statements are awaited."""

    connection: Any
    fetch: Callable[[Any, str, Mapping[str, Any]], Awaitable[list[Row]]]
    database: str = "postgresql"
    blocks: bool = False

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        _refuse_blocking_engine()
        return await self.fetch(self.connection, sql, parameters)


@dataclass(frozen=True, slots=True)
class _BlockingDriver:
    """A driver whose statements block, for as long as the database takes."""

    connection: Any
    fetch: Callable[[Any, str, Mapping[str, Any]], list[Row]]
    database: str = "postgresql"
    blocks: bool = True

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await in_callers_thread(lambda: self.fetch(self.connection, sql, parameters))


@dataclass(frozen=True, slots=True)
class _AsyncSQLAlchemy:
    """An AsyncConnection or AsyncSession: SQLAlchemy's blocking API runs inside its greenlet."""

    owner: Any
    database: str
    blocks: bool = False

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        def run(connection: Any) -> list[Row]:
            # An AsyncSession hands over its Session, which has its connection only by now.
            own = connection.connection() if _is_session(connection) else connection
            _check_sqlalchemy(own)
            return _fetch_sqlalchemy(own, sql, parameters)

        _refuse_blocking_engine()
        rows: list[Row] = await self.owner.run_sync(run)
        return rows


def _refuse_blocking_engine() -> None:
    if is_waiting():
        raise TypeError(
            "a blocking engine takes a connection that blocks, such as a psycopg.Connection or an "
            "SQLAlchemy Session: this one belongs to another event loop"
        )


async def _fetch_asyncpg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    text, names = numbered(sql)
    rows = await connection.fetch(text, *(parameters[name] for name in names))
    return [tuple(row) for row in rows]


def _fetch_psycopg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    # Not connection.cursor(): the caller may have chosen a class with other placeholders.
    with _psycopg().Cursor(connection, row_factory=_psycopg().rows.tuple_row) as cursor:
        cursor.execute(pyformat(sql), parameters)
        rows = list(cursor.fetchall())
    _check_psycopg(connection)
    return rows


async def _fetch_async_psycopg(
    connection: Any, sql: str, parameters: Mapping[str, Any]
) -> list[Row]:
    async with _psycopg().AsyncCursor(connection, row_factory=_psycopg().rows.tuple_row) as cursor:
        await cursor.execute(pyformat(sql), parameters)
        rows = list(await cursor.fetchall())
    _check_psycopg(connection)
    return rows


def _psycopg() -> Any:
    return sys.modules["psycopg"]


def _fetch_sqlalchemy(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    from sqlalchemy import text

    return [tuple(row) for row in connection.execute(text(sql), parameters)]


def _is_session(connection: Any) -> bool:
    return isinstance(connection, sys.modules["sqlalchemy.orm"].Session)


def _from_asyncpg(connection: Any) -> Joined:
    if not connection.is_in_transaction():
        raise NoTransaction(
            "this asyncpg connection has no open transaction to join: "
            "enqueue inside `async with connection.transaction():`"
        )
    return _AsyncDriver(connection, _fetch_asyncpg)


def _check_psycopg(connection: Any) -> None:
    """Refuse autocommit without a transaction.

    A pipeline does not know its state until its statements are answered, so this is called before
    and after each statement: the first one that is run only reads.
    """
    idle = _psycopg().pq.TransactionStatus.IDLE
    if connection.autocommit and connection.info.transaction_status == idle:
        raise NoTransaction(
            "this psycopg connection is in autocommit mode and has no open transaction to join: "
            "enqueue inside `with connection.transaction():`"
        )


def _from_psycopg(connection: Any) -> Joined:
    _check_psycopg(connection)
    return _BlockingDriver(connection, _fetch_psycopg)


def _from_async_psycopg(connection: Any) -> Joined:
    _check_psycopg(connection)
    return _AsyncDriver(connection, _fetch_async_psycopg)


def _from_connection(connection: Any) -> Joined:
    _check_sqlalchemy(connection)
    return _BlockingDriver(connection, _fetch_sqlalchemy, connection.dialect.name)


def _from_session(session: Any) -> Joined:
    connection = session.connection()
    _check_sqlalchemy(connection)
    return _BlockingDriver(connection, _fetch_sqlalchemy, connection.dialect.name)


def _from_async_connection(connection: Any) -> Joined:
    return _AsyncSQLAlchemy(connection, connection.dialect.name)


def _from_async_session(session: Any) -> Joined:
    return _AsyncSQLAlchemy(session, session.get_bind().dialect.name)


def _check_sqlalchemy(connection: Any) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") == _AUTOCOMMIT or _driver_commits_by_itself(connection):
        raise NoTransaction(
            "this SQLAlchemy connection has the isolation level AUTOCOMMIT, "
            "so there is no transaction to join: use one without"
        )


def _driver_commits_by_itself(connection: Any) -> bool:
    """Ask the driver: the execution options do not show an engine-wide AUTOCOMMIT."""
    # From Python 3.12 on, sqlite3 says -1 where it begins transactions by itself.
    return getattr(connection.connection.dbapi_connection, "autocommit", False) is True


_KNOWN: tuple[tuple[str, str, Callable[[Any], Joined]], ...] = (
    ("asyncpg.connection", "Connection", _from_asyncpg),
    ("asyncpg.pool", "PoolConnectionProxy", _from_asyncpg),
    ("psycopg", "Connection", _from_psycopg),
    ("psycopg", "AsyncConnection", _from_async_psycopg),
    ("sqlalchemy.ext.asyncio", "AsyncConnection", _from_async_connection),
    ("sqlalchemy.ext.asyncio", "AsyncSession", _from_async_session),
    ("sqlalchemy.engine", "Connection", _from_connection),
    ("sqlalchemy.orm", "Session", _from_session),
)
