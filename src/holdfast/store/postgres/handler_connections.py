"""Connections that the store lends to handlers.

They are apart from its own: the planner's settings that suit its statements do not suit others, and
handlers that hold connections for long must not keep ticks from getting one.
"""

import contextlib
from collections.abc import AsyncIterator

from holdfast.store.postgres.connection import DRIVER_ERRORS, Connection, Database
from holdfast.store.postgres.connection_pool import ConnectionPool

_RESET_SECONDS = 5.0
"""Seconds in which a returned connection must be reset; otherwise it is closed."""


class HandlerConnections:
    """Lend connections to handlers, `most` at once.

    Args:
        database: opens them.
        most: how many there may be; a handler waits for the next that is returned.
    """

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._most = most
        self._pool: ConnectionPool | None = None

    @contextlib.asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend a connection; what a handler has changed in its session is reset afterwards."""
        if self._pool is None:
            self._pool = ConnectionPool(self._database.connect_for_handlers, self._most)
        pool = self._pool
        connection = await pool.acquire()
        is_whole = False
        try:
            yield connection
            with contextlib.suppress(*DRIVER_ERRORS):
                if not connection.is_closed() and not connection.is_in_transaction():
                    await connection.reset(timeout=_RESET_SECONDS)
                    is_whole = True
        finally:
            pool.release(connection, whole=is_whole)

    def close(self) -> None:
        """Disconnect; connections that are lent are cut."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
