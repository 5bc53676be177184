"""The statements of a transaction until the end of its block, for a connection that is used again.

`engine.database.transaction()` also gives the connection; `ctx.transaction(ctx.database)` gives the
statements alone. No statement runs after the end of the block: it would be part of the next one's
transaction. What a statement changes beyond its transaction, such as a temporary table or a
setting, stays with the connection: the store undoes that, or closes the connection.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from holdfast.jobs.database_port import DatabaseTransaction, Row
from holdfast.jobs.exceptions import ContextError

NEEDS_ASYNC = (
    "ctx.transaction(ctx.database) is for async handlers: in any other, use the connection of "
    "ctx.transaction()"
)
_NO_CONNECTION = (
    "ctx.transaction(ctx.database) gives no connection: enqueue with ctx.enqueue(), and use "
    "ctx.transaction() where a connection is needed"
)
_OVER = "the transaction is over: await its statements inside the block"
_STILL_RUNS = "the block ended while a statement of its transaction still ran: await each statement"


class BlockStatements:
    """Implements `DatabaseTransaction` by `statements`, until its end.

    Args:
        statements: run on the connection that is used again.
        gives_connection: whether the block may use the connection itself.
    """

    def __init__(self, statements: DatabaseTransaction, *, gives_connection: bool = False) -> None:
        self._statements = statements
        self._gives_connection = gives_connection
        self._is_over = False
        self._running = 0

    @property
    def connection(self) -> Any:
        """The driver's connection, where the block may use it.

        Raises:
            ContextError: it may not, or has ended.
        """
        if not self._gives_connection:
            raise ContextError(_NO_CONNECTION)
        self.check()
        return self._statements.connection

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement and return its rows."""
        with self._noted():
            return await self._statements.fetch(sql, parameters)

    async def execute_many(self, sql: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once for each of `parameters`."""
        with self._noted():
            await self._statements.execute_many(sql, parameters)

    def check(self) -> None:
        """Refuse a statement after the end.

        Raises:
            ContextError: it has come.
        """
        if self._is_over:
            raise ContextError(_OVER)

    @property
    def is_running(self) -> bool:
        """Whether a statement is running."""
        return self._running > 0

    def end(self) -> None:
        """Let no statement begin from now on."""
        self._is_over = True

    def end_idle(self) -> None:
        """Let no statement begin from now on, before the transaction is committed.

        Raises:
            ContextError: one is running.
        """
        self.end()
        if self.is_running:
            raise ContextError(_STILL_RUNS)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        self.check()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
