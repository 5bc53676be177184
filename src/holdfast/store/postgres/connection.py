"""Connections: how the database is reached, and what its errors mean to a caller."""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import asyncpg

from holdfast.jobs.error_text import clean
from holdfast.jobs.store_port import (
    BadAddress,
    ConstraintViolated,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
)
from holdfast.store.joining import numbered
from holdfast.store.postgres.connection_pool import Connection, ConnectionPool
from holdfast.store.postgres.session import (
    HANDLER_SETTINGS,
    NAME,
    POOLED,
    READ_SETTINGS,
    SETTINGS,
    HandlerConnection,
    PooledConnection,
    apply_settings,
    is_pooled,
)
from holdfast.store.sql_files import load_queries

__all__ = [
    "DRIVER_ERRORS",
    "MINIMUM_VERSION",
    "SQL",
    "Connection",
    "Database",
    "Row",
    "check_address",
    "check_server",
    "describe",
    "rows",
    "store_error",
]

_log = logging.getLogger("holdfast.store")

T = TypeVar("T")
Row: TypeAlias = Any

SQL: Mapping[str, str] = load_queries("holdfast.store.postgres")
"""Every named query of this dialect, with named parameters (`:name`)."""

MINIMUM_VERSION = (14,)
"""Older ones lack what our statements use, and have no support any more."""

_HOST_ENDS = re.compile(r"[/?#]")
_CONNECTING = 10.0
_TRIES = 5

_UNREACHABLE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.OutOfMemoryError,
    asyncpg.ReadOnlySQLTransactionError,
)
_MISCONFIGURED = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
_NO_SCHEMA = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidSchemaNameError,
)
_MISTAKEN_OPTION = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)
_BROKEN = (asyncpg.InterfaceError, asyncpg.InternalClientError)
DRIVER_ERRORS = (asyncpg.PostgresError, *_BROKEN, OSError, TimeoutError)
"""All errors that asyncpg raises."""
_COLLISIONS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


class Database:
    """The connections of one store to one database.

    Args:
        url: `postgresql://user:password@host:port/database`.
        connections: how many there may be at once.
        timeout: seconds that one statement may take; a server that is silent for longer counts as
            gone.
    """

    def __init__(self, url: str, *, connections: int, timeout: float) -> None:
        self._url = url
        self._most = connections
        self._timeout = timeout
        self._pool: ConnectionPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.where = describe(url)
        """The address without its password."""
        self.pooled = False
        """Whether a pooler is in between, so that sessions are shared; known once it is open."""

    async def open(self) -> None:
        """Connect.

        Raises:
            StoreUnusable: the address or the account is wrong, or it is open already.
            StoreUnavailable: the server does not answer.
        """
        check_address(self._url)
        if self._loop is not None and not self._loop.is_closed():
            raise StoreUnusable(
                f"the store on {self.where} is open already: open an engine once at a time, or "
                "make a second one"
            )
        self._loop = asyncio.get_running_loop()
        try:
            self._pool = await self._opened_pool()
        except BaseException:
            self._loop = None
            raise
        self._closed = False

    async def _opened_pool(self) -> ConnectionPool:
        pool = ConnectionPool(self._connect, self._most)
        try:
            await self._look_for_pooler()
            pool.release(await pool.acquire(), whole=True)
        except (ValueError, OverflowError, asyncpg.InterfaceError):
            # The driver's message may repeat the address, and with it the password.
            raise StoreUnusable(
                f"the address of {self.where} cannot be understood; it must look like "
                "postgresql://user:password@host:5432/database, with a port of at most 65535 and "
                "special characters in the password written as %XX"
            ) from None
        except _MISTAKEN_OPTION as error:
            raise StoreUnusable(
                f"{self.where} does not take the options after the '?' of the address ({error})"
            ) from error
        except Exception as error:
            raise store_error(error, self.where) from error
        return pool

    async def _look_for_pooler(self) -> None:
        before, self.pooled = self.pooled, await is_pooled(self._url, _CONNECTING)
        if self.pooled and not before:
            _log.warning(POOLED, self.where)

    async def _connect(self) -> Connection:
        options = (
            {
                "connection_class": PooledConnection,
                "statement_cache_size": 0,
                "server_settings": NAME,
            }
            if self.pooled
            else {"server_settings": SETTINGS | NAME}
        )
        return await asyncpg.connect(
            self._url, timeout=_CONNECTING, command_timeout=self._timeout, **options
        )

    async def connect_for_handlers(self) -> Connection:
        """Open a connection whose statements are not ours, so without our planner's settings."""
        return await self._connect_for_others(HANDLER_SETTINGS)

    async def connect_for_reads(self) -> Connection:
        """Open the same for statements that only read; behind a pooler they must see to that."""
        return await self._connect_for_others(READ_SETTINGS)

    async def _connect_for_others(self, settings: Mapping[str, str]) -> Connection:
        options: dict[str, Any] = {
            "connection_class": HandlerConnection,
            "server_settings": {**settings, **NAME},
        }
        if self.pooled:
            options = {"statement_cache_size": 0, "server_settings": NAME}
        try:
            return await asyncpg.connect(
                self._url, timeout=_CONNECTING, command_timeout=self._timeout, **options
            )
        except Exception as error:
            raise store_error(error, self.where) from error

    async def connect(self) -> Connection:
        """Open a connection of its own, for one that listens or lives on another event loop."""
        try:
            return await self._connect()
        except Exception as error:
            raise store_error(error, self.where) from error

    async def close(self) -> None:
        """Let running statements finish, and disconnect."""
        self._closed = True
        self._loop = None
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(_CONNECTING):
                    await pool.close()
            except (TimeoutError, *_UNREACHABLE, asyncpg.InterfaceError):
                pool.terminate()

    def check_open(self) -> ConnectionPool:
        """Return the pool of this event loop.

        Raises:
            StoreClosed: the store is not open.
            StoreUnusable: it is open on another event loop.
        """
        pool = self._pool
        if pool is None:
            state = "closed" if self._closed else "not open"
            raise StoreClosed(f"{self.where}: the store is {state}")
        if asyncio.get_running_loop() is not self._loop:
            raise StoreUnusable(
                f"the store on {self.where} was opened on another event loop: call it through "
                "engine.blocking(), which any thread may use, or open one engine per loop"
            )
        return pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Borrow a connection; its errors become the store's."""
        pool = self.check_open()
        cancellations = _cancellations()
        try:
            connection = pool.take()
            if connection is None:
                async with asyncio.timeout(self._timeout):
                    connection = await pool.acquire()
            whole = False
            try:
                yield connection
                whole = True
            except (asyncpg.PostgresError, asyncpg.InterfaceError):
                whole = not connection.is_in_transaction()
                raise
            finally:
                pool.release(connection, whole=whole)
        except DRIVER_ERRORS as error:
            if _cancellations() > cancellations:
                # The caller was cancelled, and the driver failed to roll back on a broken
                # connection. As an outage the caller would try again and never end.
                raise asyncio.CancelledError from error
            raise store_error(error, self.where) from error

    async def rows(self, query: str, **parameters: Any) -> list[Row]:
        """Run the named `query` and return its rows."""
        async with self.connection() as connection:
            return await rows(connection, query, **parameters)

    async def write(self, query: str, **parameters: Any) -> list[Row]:
        """Run the named `query`, again where it lost a race with another transaction."""
        return await self._again(lambda: self.rows(query, **parameters))

    async def transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in one transaction, again where it lost a race with another one."""

        async def once() -> T:
            async with (
                self.connection() as connection,
                connection.transaction(isolation="read_committed"),
            ):
                if self.pooled:
                    await apply_settings(connection)
                return await work(connection)

        return await self._again(once)

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        for _ in range(_TRIES - 1):
            try:
                return await work()
            except StoreBusy as error:
                if not isinstance(error.__cause__, _COLLISIONS):
                    raise
        return await work()


def _cancellations() -> int:
    """Return how many requests to cancel the current task are pending."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def rows(connection: Connection, query: str, **parameters: Any) -> list[Row]:
    """Run the named `query` on `connection` and return its rows."""
    text, names = numbered(SQL[query])
    found: list[Row] = await connection.fetch(text, *[parameters[name] for name in names])
    return found


def check_address(url: str) -> None:
    """Refuse an address that cannot be one.

    Raises:
        BadAddress: the message says what to write.
    """
    scheme, found, rest = url.partition("://")
    if not found or scheme not in {"postgresql", "postgres"}:
        raise BadAddress(
            "an address of a PostgreSQL database begins with postgresql://"
            + (f", not with {scheme}://" if found else "")
        )
    if _HOST_ENDS.split(rest, 1)[0].count("@") > 1:
        raise BadAddress(
            "the address of the PostgreSQL database has more than one '@' before the host: in an "
            "account or a password it is written %40"
        )


def check_server(version: tuple[int, ...]) -> None:
    """Refuse a server that is too old.

    Raises:
        StoreUnusable: it is; the message says which is needed.
    """
    if version < MINIMUM_VERSION:
        raise StoreUnusable(
            f"the server is PostgreSQL {version[0]}; {MINIMUM_VERSION[0]} or newer is needed"
        )


def describe(url: str) -> str:
    """Return host, port and database of `url`, never the account or the password."""
    try:
        parts = urlsplit(url)
        if "@" in url and "@" not in parts.netloc:
            # A '?' or '#' in the password: what stands before it looks like the host.
            return "PostgreSQL"
        port = f":{parts.port}" if parts.port else ""
        name = parts.path.strip("/")
        database = f"/{name}" if name and "@" not in name else ""
        return f"PostgreSQL at {parts.hostname or 'localhost'}{port}{database}"
    except ValueError:
        return "PostgreSQL"


def store_error(error: BaseException, where: str) -> StoreError:
    """Return what `error` means to a caller of the store at `where`."""
    if isinstance(error, StoreError):
        return error
    text = clean(str(error))  # a server's details and hints are lines of their own
    if isinstance(error, _MISCONFIGURED):
        return StoreUnusable(
            f"{where}: {text}; check the account, its password and rights, and the name of the "
            "database in the address"
        )
    if isinstance(error, _NO_SCHEMA):
        return StoreUnusable(f"{where}: the schema is missing ({text}); run: holdfast migrate")
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return ConstraintViolated(f"{where}: {text}")
    if isinstance(error, asyncpg.DiskFullError):
        return StoreFull(f"{where}: the server has no room left")
    if isinstance(error, (*_COLLISIONS, asyncpg.LockNotAvailableError)):
        return StoreBusy(f"{where}: {text}")
    if isinstance(error, TimeoutError | asyncpg.QueryCanceledError):
        return StoreUnavailable(f"{where}: no answer in time")
    if isinstance(error, socket.gaierror):
        return StoreUnavailable(
            f"{where}: cannot be reached ({text}); check the host's name in the address"
        )
    if isinstance(error, _UNREACHABLE):
        return StoreUnavailable(f"{where}: cannot be reached ({text}); check that it runs")
    if isinstance(error, ValueError):
        return StoreError(f"{where}: {text}")
    if isinstance(error, _BROKEN):
        # A connection that was closed during a statement.
        return StoreUnavailable(f"{where}: the connection is gone ({text})")
    return StoreError(f"{where}: {text}")
