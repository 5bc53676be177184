"""Begin, commit and roll back a transaction on a caller's own connection to a database server.

`enqueue(connection=)` joins a transaction that its caller ends, see `store.joining`. For
`ctx.transaction()` the worker ends it, so it also begins it: a connection that is in a transaction
already is refused. The drivers are those of `joining`, recognised in the same way.

Methods of drivers that block are plain functions, to be called in a thread; the others return
awaitables.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from holdfast.jobs.exceptions import ContextError
from holdfast.store.joining import loaded_class, unknown_driver

__all__ = ["Control", "control_of"]


class Control(Protocol):
    """Controls the transaction of one connection."""

    blocks: bool
    """Whether `begin`, `commit` and `rollback` block; otherwise what they return is awaited."""

    def is_open(self) -> bool:
        """Say whether the transaction that was begun here is still open.

        True for a connection that is lost: the next statement raises the driver's own error.
        """
        ...

    def begin(self) -> Awaitable[object] | None:
        """Begin."""
        ...

    def commit(self) -> Awaitable[object] | None:
        """Commit."""
        ...

    def rollback(self) -> Awaitable[object] | None:
        """Roll back."""
        ...


def control_of(connection: object) -> Control:
    """Return the control of a connection that is in no transaction yet.

    Raises:
        TypeError: it does not belong to a driver that Holdfast knows.
        ContextError: it has an open transaction.
    """
    for module, name, make in _KNOWN:
        if isinstance(connection, loaded_class(module, name)):
            return make(connection)
    raise unknown_driver("ctx.transaction()", connection)


class _Asyncpg:
    blocks = False

    def __init__(self, connection: Any) -> None:
        _check_idle("asyncpg connection", connection.is_in_transaction())
        self._connection = connection
        self._transaction = connection.transaction()

    def is_open(self) -> bool:
        try:
            return bool(self._connection.is_closed() or self._connection.is_in_transaction())
        except sys.modules["asyncpg"].InterfaceError:
            return False  # it was returned to its pool

    def begin(self) -> Any:
        return self._transaction.start()

    def commit(self) -> Any:
        return self._transaction.commit()

    def rollback(self) -> Any:
        return self._transaction.rollback()


class _Psycopg:
    """Its `transaction()` also refuses a commit or rollback by the handler."""

    blocks = True

    def __init__(self, connection: Any) -> None:
        self._library = sys.modules["psycopg"]
        idle = self._library.pq.TransactionStatus.IDLE
        _check_idle("psycopg connection", connection.info.transaction_status != idle)
        self._connection = connection
        self._transaction = connection.transaction()

    def is_open(self) -> bool:
        idle = self._library.pq.TransactionStatus.IDLE
        return bool(self._connection.info.transaction_status != idle)

    def begin(self) -> Any:
        return self._transaction.__enter__()

    def commit(self) -> Any:
        return self._transaction.__exit__(None, None, None)

    def rollback(self) -> Any:
        undo = self._library.Rollback()
        return self._transaction.__exit__(type(undo), undo, None)


class _AsyncPsycopg(_Psycopg):
    blocks = False

    def begin(self) -> Any:
        return self._transaction.__aenter__()

    def commit(self) -> Any:
        return self._transaction.__aexit__(None, None, None)

    def rollback(self) -> Any:
        undo = self._library.Rollback()
        return self._transaction.__aexit__(type(undo), undo, None)


class _SQLAlchemy:
    """A Connection or a Session."""

    blocks = True

    def __init__(self, owner: Any) -> None:
        _check_idle(f"SQLAlchemy {type(owner).__name__}", owner.in_transaction())
        bind = owner.get_bind() if hasattr(owner, "get_bind") else owner
        if bind.dialect.name != "postgresql":
            raise TypeError(
                f"this connection is one to {bind.dialect.name}, but the store is on PostgreSQL"
            )
        self._owner = owner
        self._transaction: Any = None

    def is_open(self) -> bool:
        return self._transaction is not None and bool(self._transaction.is_active)

    def begin(self) -> Any:
        self._transaction = self._owner.begin()

    def commit(self) -> Any:
        return self._transaction.commit()

    def rollback(self) -> Any:
        return self._transaction.rollback()


class _AsyncSQLAlchemy(_SQLAlchemy):
    """An AsyncConnection or an AsyncSession."""

    blocks = False

    def begin(self) -> Any:
        return self._begin()

    async def _begin(self) -> None:
        self._transaction = await self._owner.begin()


def _check_idle(what: str, is_in_transaction: bool) -> None:
    if is_in_transaction:
        raise ContextError(
            f"this {what} has an open transaction; ctx.transaction() begins and commits one "
            f"itself: give it a connection without one, or the function that opens it"
        )


_KNOWN: tuple[tuple[str, str, Callable[[Any], Control]], ...] = (
    ("asyncpg.connection", "Connection", _Asyncpg),
    ("asyncpg.pool", "PoolConnectionProxy", _Asyncpg),
    ("psycopg", "Connection", _Psycopg),
    ("psycopg", "AsyncConnection", _AsyncPsycopg),
    ("sqlalchemy.ext.asyncio", "AsyncConnection", _AsyncSQLAlchemy),
    ("sqlalchemy.ext.asyncio", "AsyncSession", _AsyncSQLAlchemy),
    ("sqlalchemy.engine", "Connection", _SQLAlchemy),
    ("sqlalchemy.orm", "Session", _SQLAlchemy),
)
