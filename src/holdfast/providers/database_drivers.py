"""Transactions of the database drivers that `with_database_transaction` knows.

A driver is recognised by the class of its connection, and only if the caller has loaded it.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from holdfast.errors import ErrorCode, Permanent

_ACCEPTED = (
    "an asyncpg connection, a psycopg connection (sync or async), a sqlite3 connection, or an "
    "SQLAlchemy Connection, Session, AsyncConnection or AsyncSession"
)

_PROBE = "SELECT 1"


class Transaction(Protocol):
    """A transaction on one connection; what an asynchronous driver returns is awaited."""

    blocks: bool
    """Whether its methods block; otherwise they return awaitables."""

    def begin(self) -> Awaitable[object] | None:
        """Begin."""
        ...

    def verify(self) -> Awaitable[object] | None:
        """Raise if a commit would roll back: PostgreSQL then answers COMMIT without an error.

        That is so after an error inside the transaction, even if the function has caught it.
        """
        ...

    def commit(self) -> Awaitable[object] | None:
        """Commit."""
        ...

    def rollback(self) -> Awaitable[object] | None:
        """Roll back."""
        ...

    def close(self) -> Awaitable[object] | None:
        """Close the connection, or return it to its pool."""
        ...


def is_connection(thing: object) -> bool:
    """Say whether `thing` is a connection or session of a known driver."""
    return any(isinstance(thing, _loaded_class(module, name)) for module, name, _ in _KNOWN)


def transaction_on(connection: object) -> Transaction:
    """Return a transaction on `connection`, not begun yet.

    Raises:
        TypeError: it is not a connection of a known driver.
        Permanent: it has an open transaction, whose end is not for others to decide.
    """
    for module, name, kind in _KNOWN:
        if isinstance(connection, _loaded_class(module, name)):
            return kind(connection)
    found = type(connection)
    raise TypeError(
        f"the source must return {_ACCEPTED}, or a context manager that does; "
        f"got {found.__module__}.{found.__qualname__}"
    )


def _loaded_class(module: str, name: str) -> Any:
    """Return a class of a driver, or what no object is an instance of if it is not loaded."""
    return getattr(sys.modules.get(module), name, ())


class _Asyncpg:
    blocks = False

    def __init__(self, connection: Any) -> None:
        _check_idle(connection, connection.is_in_transaction())
        self._connection = connection
        self._transaction = connection.transaction()

    def begin(self) -> Any:
        return self._transaction.start()

    def verify(self) -> Any:
        return self._connection.execute(_PROBE)

    def commit(self) -> Any:
        return self._transaction.commit()

    def rollback(self) -> Any:
        return self._transaction.rollback()

    def close(self) -> Any:
        return self._connection.close()


class _Owner:
    """A connection or session with `commit`, `rollback` and `close` of its own."""

    blocks = True

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def commit(self) -> Any:
        return self._owner.commit()

    def rollback(self) -> Any:
        return self._owner.rollback()

    def close(self) -> Any:
        return self._owner.close()


class _Psycopg(_Owner):
    def __init__(self, connection: Any) -> None:
        idle = sys.modules["psycopg"].pq.TransactionStatus.IDLE
        _check_idle(connection, connection.info.transaction_status != idle)
        super().__init__(connection)

    def begin(self) -> None:
        if self._owner.autocommit:  # otherwise the first statement begins it
            self._owner.execute("BEGIN")

    def verify(self) -> None:
        failed = sys.modules["psycopg"].pq.TransactionStatus.INERROR
        _check_alive(self._owner, self._owner.info.transaction_status != failed)


class _AsyncPsycopg(_Psycopg):
    blocks = False

    async def begin(self) -> None:  # type: ignore[override]  # awaited, as `blocks` says
        if self._owner.autocommit:
            await self._owner.execute("BEGIN")

    async def verify(self) -> None:  # type: ignore[override]  # the same
        super().verify()


class _SQLite(_Owner):
    def __init__(self, connection: Any) -> None:
        # From Python 3.12 on, autocommit=False keeps a transaction open at all times.
        self._always_open = getattr(connection, "autocommit", None) is False
        _check_idle(connection, connection.in_transaction and not self._always_open)
        super().__init__(connection)

    def begin(self) -> None:
        if not self._always_open:
            # A transaction that begins with a read cannot write after another one has written.
            self._owner.execute("BEGIN IMMEDIATE")

    def verify(self) -> None:
        # Some errors, such as a full disk, end it.
        _check_alive(self._owner, self._owner.in_transaction)


class _Connection(_Owner):
    """SQLAlchemy's."""

    def __init__(self, owner: Any) -> None:
        _check_idle(owner, owner.in_transaction())
        super().__init__(owner)

    def begin(self) -> None:
        self._owner.begin()

    def verify(self) -> None:
        self._owner.exec_driver_sql(_PROBE)


class _Session(_Connection):
    def verify(self) -> None:
        self._owner.connection().exec_driver_sql(_PROBE)


class _AsyncSession(_Owner):
    blocks = False

    def __init__(self, session: Any) -> None:
        _check_idle(session, session.in_transaction())
        super().__init__(session)

    async def begin(self) -> None:
        await self._owner.begin()

    async def verify(self) -> None:
        await (await self._owner.connection()).exec_driver_sql(_PROBE)


class _AsyncConnection(_AsyncSession):
    def __init__(self, connection: Any) -> None:
        # One that `AsyncEngine.connect` has just made is not connected yet.
        self._connected = connection.sync_connection is not None
        if self._connected:
            _check_idle(connection, connection.in_transaction())
        self._owner = connection

    async def begin(self) -> None:
        if not self._connected:
            await self._owner.start()
        await self._owner.begin()

    async def verify(self) -> None:
        await self._owner.exec_driver_sql(_PROBE)


def _check_alive(connection: object, alive: bool) -> None:
    if not alive:
        kind = type(connection)
        raise Permanent(
            ErrorCode.INVALID_STATE,
            f"the transaction of the {kind.__module__}.{kind.__qualname__} was ended inside the "
            "function, by an error that it caught or by itself",
        )


def _check_idle(connection: object, in_transaction: bool) -> None:
    if in_transaction:
        kind = type(connection)
        raise Permanent(
            ErrorCode.INVALID_STATE,
            f"the source returned a {kind.__module__}.{kind.__qualname__} with an open "
            "transaction; with_database_transaction begins and commits one itself",
        )


_KNOWN: tuple[tuple[str, str, Callable[[Any], Transaction]], ...] = (
    ("asyncpg.connection", "Connection", _Asyncpg),
    ("asyncpg.pool", "PoolConnectionProxy", _Asyncpg),
    ("psycopg", "Connection", _Psycopg),
    ("psycopg", "AsyncConnection", _AsyncPsycopg),
    ("sqlite3", "Connection", _SQLite),
    ("sqlalchemy.ext.asyncio", "AsyncConnection", _AsyncConnection),
    ("sqlalchemy.ext.asyncio", "AsyncSession", _AsyncSession),
    ("sqlalchemy.engine", "Connection", _Connection),
    ("sqlalchemy.orm", "Session", _Session),
)
