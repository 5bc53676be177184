"""The tables of apps: what a store does for `engine.database`.

They are in the database of the jobs, so one transaction changes an app's rows and enqueues jobs.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

Row = tuple[Any, ...]

READS_ONLY = "database.fetch() only reads: change rows inside `async with database.transaction()`"
"""What a store says of a `fetch` that would change something."""

ENDED = "the transaction was ended inside the block of database.transaction(), which commits it"
"""What a store says of a block that has ended its transaction by itself."""


class DatabaseTransaction(Protocol):
    """An open transaction. Await one statement at a time; its owner commits or rolls back."""

    @property
    def connection(self) -> Any:
        """The driver's connection, for `connection=` of `engine.enqueue`.

        Raises:
            ContextError: the transaction is that of `ctx.transaction(ctx.database)`.
        """
        ...

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement with named parameters (`:name`) and return its rows.

        Raises:
            ConstraintViolated: a row breaks a constraint.
            StoreUnavailable: the database does not answer, or another transaction was in the way:
                repeat the whole transaction.
            StoreError: the statement is wrong; the driver's error is its `__cause__`.
            KeyError: a parameter is missing.
            ContextError: the statement would begin, commit or roll back a transaction; or this one
                has ended.
        """
        ...

    async def execute_many(self, sql: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once for each of `parameters`; it raises what `fetch` raises."""
        ...


class Database(Protocol):
    """The database of the jobs, for an app's own tables. Use it on the engine's event loop."""

    @property
    def dialect(self) -> Literal["sqlite", "postgresql"]:
        """Which SQL it understands."""
        ...

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement that only reads, with named parameters (`:name`); return its rows.

        It sees every transaction that was committed before.

        Raises:
            ValueError: the statement would change something.
            StoreUnavailable, StoreError, KeyError: see `DatabaseTransaction.fetch`.
        """
        ...

    def transaction(self) -> AbstractAsyncContextManager[DatabaseTransaction]:
        """Begin a transaction; the end of the block commits it, an exception rolls it back.

        On SQLite it holds the only write lock: all other writes of the process wait, so it is
        rolled back after 3 seconds, and nothing inside may wait for another write of the store. On
        PostgreSQL it is READ COMMITTED.

        Raises:
            TransactionTooLong: it was rolled back, on SQLite, because its time was over.
            StoreUnavailable: the database does not answer, or is locked.
            ContextError: a statement inside the block ended the transaction.
        """
        ...

    def joined(self, connection: object) -> DatabaseTransaction:
        """Return the transaction that `ctx.transaction()` has begun on `connection`.

        Raises:
            TypeError: the connection is of another driver than the store's own.
            ValueError: it has no open transaction.
        """
        ...


class DatabaseStore(Protocol):
    """Keep the tables of apps."""

    @property
    def database(self) -> Database:
        """The database, for an app's own tables."""
        ...

    def use_tables(self, app: str, package: str) -> None:
        """Also require the tables of `app`, whose migrations are in `package`; before `open`.

        A store that migrates itself when it is opened applies them then.

        Raises:
            StoreUnusable: the package has no migrations for this store, or wrong ones.
        """
        ...
