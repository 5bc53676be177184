"""Join a caller's own transaction: `connection=` of enqueue, whatever driver it belongs to.

`join` takes a connection or session of any driver that Holdfast knows and returns a `Joined`, whose
one method runs a statement inside the caller's transaction. Nothing here begins, commits or rolls
back: whoever owns the connection decides, and with the transaction goes all that was enqueued.

That only means something where a transaction is open, or is opened by the driver itself before the
first statement (psycopg, sqlite3 and SQLAlchemy do unless told otherwise). Elsewhere every
statement would be committed by itself, so a connection without a transaction is refused.

Statements have named parameters (`:name`). Drivers are recognised by their classes and are never
imported here: a connection of a driver that is not loaded does not exist.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

__all__ = ["Joined", "NoTransaction", "join", "numbered"]

ACCEPTED = (
    "an asyncpg connection, a psycopg connection (sync or async), a sqlite3 or apsw connection, "
    "or an SQLAlchemy Connection, Session, AsyncConnection or AsyncSession"
)

Row = tuple[Any, ...]

T = TypeVar("T")
Execute = Callable[[str, Mapping[str, Any]], list[Row]]
"""Run one statement with named parameters (`:name`) and return its rows."""

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_AUTOCOMMIT = "AUTOCOMMIT"


class NoTransaction(ValueError):
    """The connection has no transaction to join."""


class Joined(Protocol):
    """A caller's transaction. `database` is what it runs on: "postgresql" or "sqlite"."""

    @property
    def database(self) -> str:
        """Return the name of the database system."""
        ...

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Run one statement with named parameters (`:name`) and return its rows.

        What the driver raises reaches the caller unchanged: the transaction is theirs to mend.
        """
        ...

    async def run(self, work: "Callable[[Execute], T]", /) -> "T":
        """Return `work(execute)`, where `execute` is the method above for code that is not async.

        Raises:
            TypeError: the driver has only coroutines.
        """
        ...


def join(connection: object) -> Joined:
    """Return the transaction that `connection` is in.

    Raises:
        TypeError: it is no connection of a driver that Holdfast knows.
        NoTransaction: it commits every statement by itself.
    """
    for module, names, make in _KNOWN:
        loaded = sys.modules.get(module)
        kinds = tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))
        if isinstance(connection, kinds):
            return make(connection)
    kind = type(connection)
    raise TypeError(
        f"connection= does not take {kind.__module__}.{kind.__qualname__}; it takes {ACCEPTED}"
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
def percented(sql: str) -> str:
    """Return `sql` with `%(name)s` in place of its named parameters."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


@dataclass(frozen=True, slots=True)
class _Coroutines:
    """A driver whose statements are awaited."""

    connection: Any
    fetch: Callable[[Any, str, Mapping[str, Any]], Awaitable[list[Row]]]
    database: str = "postgresql"

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await self.fetch(self.connection, sql, parameters)

    async def run(self, _: Callable[[Execute], T]) -> T:
        raise TypeError(f"{type(self.connection).__qualname__} has only coroutines")


@dataclass(frozen=True, slots=True)
class _Calls:
    """A driver whose statements block, for as long as the database takes."""

    connection: Any
    fetch: Callable[[Any, str, Mapping[str, Any]], list[Row]]
    database: str

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self.fetch(self.connection, sql, parameters)

    async def run(self, work: Callable[[Execute], T]) -> T:
        return work(lambda sql, parameters: self.fetch(self.connection, sql, parameters))


@dataclass(frozen=True, slots=True)
class _AsyncSQLAlchemy:
    """An AsyncConnection or AsyncSession: blocking code runs inside its greenlet."""

    owner: Any
    database: str

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await self.run(lambda execute: execute(sql, parameters))

    async def run(self, work: Callable[[Execute], T]) -> T:
        def inside(connection: Any) -> T:
            # An AsyncSession hands over its Session, which knows its connection only by now.
            own = connection.connection() if _is_session(connection) else connection
            _check_sqlalchemy(own)
            return work(lambda sql, parameters: _fetch_sqlalchemy(own, sql, parameters))

        answer: T = await self.owner.run_sync(inside)
        return answer


async def _fetch_asyncpg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    text, names = numbered(sql)
    rows = await connection.fetch(text, *(parameters[name] for name in names))
    return [tuple(row) for row in rows]


def _fetch_psycopg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    with connection.cursor(row_factory=_tuple_rows()) as cursor:
        cursor.execute(percented(sql), parameters)
        return [] if cursor.description is None else list(cursor.fetchall())


async def _fetch_async_psycopg(
    connection: Any, sql: str, parameters: Mapping[str, Any]
) -> list[Row]:
    async with connection.cursor(row_factory=_tuple_rows()) as cursor:
        await cursor.execute(percented(sql), parameters)
        return [] if cursor.description is None else list(await cursor.fetchall())


def _tuple_rows() -> Any:
    return sys.modules["psycopg"].rows.tuple_row


def _fetch_sqlite3(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    # A cursor that is made here: the caller's may make rows and text their own way.
    cursor = sys.modules["sqlite3"].Cursor(connection)
    cursor.row_factory = None
    text_factory, connection.text_factory = connection.text_factory, str
    try:
        return list(cursor.execute(sql, dict(parameters)).fetchall())
    finally:
        connection.text_factory = text_factory


def _fetch_apsw(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    cursor = sys.modules["apsw"].Cursor(connection)
    cursor.row_trace = lambda _, row: row
    return list(cursor.execute(sql, dict(parameters)).fetchall())


def _fetch_sqlalchemy(connection: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    from sqlalchemy import text

    result = connection.execute(text(sql), parameters)
    return [tuple(row) for row in result] if result.returns_rows else []


def _is_session(connection: Any) -> bool:
    return isinstance(connection, sys.modules["sqlalchemy.orm"].Session)


def _from_asyncpg(connection: Any) -> Joined:
    if not connection.is_in_transaction():
        raise NoTransaction(
            "this asyncpg connection has no open transaction to join: "
            "enqueue inside `async with connection.transaction():`"
        )
    return _Coroutines(connection, _fetch_asyncpg)


def _check_psycopg(connection: Any) -> None:
    idle = sys.modules["psycopg"].pq.TransactionStatus.IDLE
    if connection.autocommit and connection.info.transaction_status == idle:
        raise NoTransaction(
            "this psycopg connection is in autocommit mode and has no open transaction to join: "
            "enqueue inside `with connection.transaction():`"
        )


def _from_psycopg(connection: Any) -> Joined:
    _check_psycopg(connection)
    return _Calls(connection, _fetch_psycopg, "postgresql")


def _from_async_psycopg(connection: Any) -> Joined:
    _check_psycopg(connection)
    return _Coroutines(connection, _fetch_async_psycopg)


def _sqlite_commits_by_itself(connection: Any) -> bool:
    # Python 3.12 has `autocommit`; its legacy value is none of True and False.
    mode = getattr(connection, "autocommit", None)
    return mode is True or (mode is not False and connection.isolation_level is None)


def _from_sqlite3(connection: Any) -> Joined:
    if _sqlite_commits_by_itself(connection) and not connection.in_transaction:
        raise NoTransaction(
            "this sqlite3 connection is in autocommit mode and has no open transaction to join: "
            "execute BEGIN IMMEDIATE first"
        )
    return _Calls(connection, _fetch_sqlite3, "sqlite")


def _from_apsw(connection: Any) -> Joined:
    if not connection.in_transaction:
        raise NoTransaction(
            "this apsw connection has no open transaction to join: "
            "execute BEGIN IMMEDIATE first, or enqueue inside `with connection:`"
        )
    return _Calls(connection, _fetch_apsw, "sqlite")


def _from_connection(connection: Any) -> Joined:
    _check_sqlalchemy(connection)
    return _Calls(connection, _fetch_sqlalchemy, connection.dialect.name)


def _from_session(session: Any) -> Joined:
    connection = session.connection()
    _check_sqlalchemy(connection)
    return _Calls(connection, _fetch_sqlalchemy, connection.dialect.name)


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
    """Ask the driver: the options do not tell of an engine that is AUTOCOMMIT as a whole."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite":
        return bool(getattr(driver, "autocommit", False))
    if not _sqlite_commits_by_itself(driver):
        return False
    # An engine may say BEGIN in an event of its own, which comes with the first statement.
    _fetch_sqlalchemy(connection, "SELECT 1", {})
    return not connection.connection.driver_connection.in_transaction


_KNOWN: tuple[tuple[str, tuple[str, ...], Callable[[Any], Joined]], ...] = (
    ("asyncpg.connection", ("Connection",), _from_asyncpg),
    ("asyncpg.pool", ("PoolConnectionProxy",), _from_asyncpg),
    ("psycopg", ("Connection",), _from_psycopg),
    ("psycopg", ("AsyncConnection",), _from_async_psycopg),
    ("sqlite3", ("Connection",), _from_sqlite3),
    ("apsw", ("Connection",), _from_apsw),
    ("sqlalchemy.ext.asyncio", ("AsyncConnection",), _from_async_connection),
    ("sqlalchemy.ext.asyncio", ("AsyncSession",), _from_async_session),
    ("sqlalchemy.engine", ("Connection",), _from_connection),
    ("sqlalchemy.orm", ("Session",), _from_session),
)
