"""Connections that the store lends to handlers and apps.

They are apart from its own: the planner's settings that suit its statements do not suit others, and
handlers that hold connections for long must not keep ticks from getting one.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from holdfast.store.postgres.connection import DRIVER_ERRORS, Connection, Database, store_error
from holdfast.store.postgres.connection_pool import ConnectionPool

_RESET_SECONDS = 5.0
"""Seconds in which a returned connection must be reset; otherwise it is closed."""


class HandlerConnections:
    """Lend connections, `most` at once.

    Args:
        database: opens them.
        most: how many there may be; a handler waits for the next that is returned.
        reads: they only read, so there is nothing to reset when one is returned.
    """

    def __init__(self, database: Database, most: int, *, reads: bool = False) -> None:
        self._connect = database.connect_for_reads if reads else database.connect_for_handlers
        self._where = database.where
        self._most = most
        self._resets = not reads
        self._pool: ConnectionPool | None = None

    @contextlib.asynccontextmanager
    async def lend(self, timeout: float | None = None) -> AsyncIterator[Connection]:
        """Lend a connection; what was changed in its session is reset afterwards.

        Raises:
            StoreUnavailable: the server does not answer, or none was returned within `timeout`
                seconds.
        """
        if self._pool is None:
            self._pool = ConnectionPool(self._connect, self._most)
        pool = self._pool
        try:
            async with asyncio.timeout(timeout):
                connection = await pool.acquire()
        except DRIVER_ERRORS as error:
            raise store_error(error, self._where) from error
        is_whole = False
        try:
            yield connection
            with contextlib.suppress(*DRIVER_ERRORS):
                if not connection.is_closed() and not connection.is_in_transaction():
                    if self._resets:
                        await connection.reset(timeout=_RESET_SECONDS)
                    is_whole = True
        finally:
            pool.release(connection, whole=is_whole)

    def close(self) -> None:
        """Disconnect; connections that are lent are cut."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
