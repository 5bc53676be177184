"""Sessions: their settings, and connections through a pooler that shares sessions.

Behind a pooler in transaction mode, such as PgBouncer, every transaction may run in another session
of the server. So nothing may outlive a transaction: neither settings nor prepared statements, nor
LISTEN, nor session locks.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

NAME = {"application_name": "holdfast"}
HANDLER_SETTINGS = {
    # Each statement of a function must see what was committed before it; a role or a database may
    # have another default.
    "default_transaction_isolation": "read committed",
    # A process that stops inside a transaction must not keep tables from being vacuumed.
    "idle_in_transaction_session_timeout": "60s",
}
"""Of sessions in which handlers execute statements of their own."""
READ_SETTINGS = {**HANDLER_SETTINGS, "default_transaction_read_only": "on"}
"""Of sessions in which apps only read."""
SETTINGS = {
    **HANDLER_SETTINGS,
    # Our statements are few, and each has one good plan: a nested loop over index scans, from a few
    # given rows. It is made once, often while the tables are empty, and must still be right when
    # they are full. docs/explanation/stores.md says what each setting saves.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
_SET_LOCAL = " ".join(f"SET LOCAL {name} = '{value}';" for name, value in SETTINGS.items())

POOLED = (
    "%s is reached through a connection pooler, which is taken to be in transaction mode: without "
    "LISTEN, jobs and events of other processes are noticed by polling, twice a second; without "
    "session locks, the jobs of a dead worker wait until their leases expire"
)
"""The message that says what is lost behind a pooler."""


class PooledConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """Runs every statement in a transaction, which stays in one session, with our settings.

    asyncpg prepares a statement in one round trip and executes it in another: outside a transaction
    a pooler may send them to two sessions.
    """

    async def fetch(self, *args: Any, **options: Any) -> Any:
        """Run a statement and return its rows."""
        async with self._in_one_session():
            return await super().fetch(*args, **options)

    async def fetchval(self, *args: Any, **options: Any) -> Any:
        """Run a statement and return its first value."""
        async with self._in_one_session():
            return await super().fetchval(*args, **options)

    @asynccontextmanager
    async def _in_one_session(self) -> AsyncIterator[None]:
        if self.is_in_transaction():
            yield
        else:
            async with self.transaction(isolation="read_committed"):
                await self.execute(_SET_LOCAL)
                yield


class HandlerConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection of handlers, in a session of its own."""

    def get_reset_query(self) -> str:
        """Return what `reset` executes: temporary tables would hide those of the next handler."""
        return f"{super().get_reset_query()}\nDISCARD TEMP;"


async def apply_settings(connection: Any) -> None:
    """Apply our settings to the transaction that has begun, in a session that is shared."""
    await connection.execute(_SET_LOCAL)


async def is_pooled(url: str, timeout: float) -> bool:
    """Connect once, and say whether a pooler answers.

    A server names the process that serves a new connection; a pooler has to invent a number.
    """
    connection = await asyncpg.connect(
        url, timeout=timeout, command_timeout=timeout, statement_cache_size=0, server_settings=NAME
    )
    try:
        async with connection.transaction():
            serving = await connection.fetchval("SELECT pg_backend_pid()")
        return bool(serving != connection.get_server_pid())
    finally:
        await connection.close(timeout=timeout)
