"""What `ctx.transaction(ctx.database)` gives to a handler: statements, and no connection.

So the store can use the connection again: nothing of a handler reaches the transactions after its
own.
"""

from collections.abc import Iterable, Mapping
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
_OVER = "the handler's transaction is over: await its statements inside the block"


class AttemptStatements:
    """Implements `DatabaseTransaction` by `statements`, until its end."""

    def __init__(self, statements: DatabaseTransaction) -> None:
        self._statements = statements
        self._is_over = False

    @property
    def connection(self) -> Any:
        """Refused."""
        raise ContextError(_NO_CONNECTION)

    async def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement and return its rows."""
        self.check()
        return await self._statements.fetch(sql, parameters)

    async def execute_many(self, sql: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once for each of `parameters`."""
        self.check()
        await self._statements.execute_many(sql, parameters)

    def check(self) -> None:
        """Refuse a statement after the end.

        Raises:
            ContextError: it has come.
        """
        if self._is_over:
            raise ContextError(_OVER)

    def end(self) -> None:
        """Let no statement run from now on."""
        self._is_over = True
