"""Keep leases alive from another thread, on a connection of its own."""

import asyncio
from collections.abc import Sequence

from holdfast.jobs.model import Lease
from holdfast.jobs.store_port import Extended
from holdfast.store.postgres import control
from holdfast.store.postgres.connection import Connection, Database, store_error


class PostgresHeartbeats:
    """Extends leases on whatever event loop it is first awaited; reconnects by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def extend(
        self, leases: Sequence[Lease], lease_seconds: float, *, now: float | None = None
    ) -> Extended:
        """Let all `leases` last until `lease_seconds` from now."""
        if not leases:
            return Extended()
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
            self._loop = asyncio.get_running_loop()
        try:
            return await control.extend(self._connection, leases, lease_seconds, now)
        except Exception as error:
            raise store_error(error, self._database.where) from error

    async def close(self) -> None:
        """Close the connection; from another event loop it is only cut."""
        connection, self._connection = self._connection, None
        if connection is None or self._loop is None:
            return
        if self._loop is asyncio.get_running_loop():
            await connection.close()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(connection.terminate)
