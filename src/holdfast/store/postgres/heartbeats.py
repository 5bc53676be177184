"""Keep a worker and its leases alive from another thread, on a connection of its own."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.model import Lease
from holdfast.jobs.store_port import Extended
from holdfast.store.postgres import control
from holdfast.store.postgres.connection import Connection, Database, rows, store_error
from holdfast.store.row_mapping import requests_from


class PostgresHeartbeats:
    """Extends leases on whatever event loop it is first awaited; reconnects by itself.

    A worker is registered as alive for as long as the connection lasts, so each new connection
    registers it again before it is used. A connection on which anything fails is terminated: it may
    never answer again.
    """

    def __init__(self, database: Database, kinds: Sequence[str] | None = None) -> None:
        self._database = database
        self._kinds = kinds
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker_id: str | None = None

    async def register(self, worker_id: str) -> None:
        """Register the worker as alive, unless the connection that it lives by is still open.

        A connection that does not answer is found by the next `requests`.
        """
        if worker_id != self._worker_id:
            self._worker_id = worker_id
            await self.close()
        await self._connected()

    async def extend(
        self, leases: Sequence[Lease], lease_seconds: float, *, now: float | None = None
    ) -> Extended:
        """Let all `leases` last until `lease_seconds` from now."""
        if not leases:
            return Extended()
        connection = await self._connected()
        with self._terminated_on_failure(connection):
            return await control.extend(connection, leases, lease_seconds, now)

    async def requests(self, worker_id: str) -> WorkerRequests:
        """Return which jobs are to be cancelled, and whether the worker is to finish."""
        connection = await self._connected()
        with self._terminated_on_failure(connection):
            found = await rows(connection, "worker_requests", worker=worker_id)
        return requests_from(found)

    async def close(self) -> None:
        """Close the connection; from another event loop it is only cut."""
        connection, self._connection = self._connection, None
        if connection is None or self._loop is None:
            return
        if self._loop is asyncio.get_running_loop():
            await connection.close()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(connection.terminate)

    async def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and not connection.is_closed():
            return connection
        self._connection = None
        connection = await self._database.connect()
        if self._worker_id is not None:
            identity = {"worker": self._worker_id, "pid": connection.get_server_pid()}
            with self._terminated_on_failure(connection):
                await rows(connection, "worker_register", **identity, kinds=self._kinds)
        self._connection, self._loop = connection, asyncio.get_running_loop()
        return connection

    @contextmanager
    def _terminated_on_failure(self, connection: Connection) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # The caller's timeout arrives as a cancellation, which is no Exception.
            connection.terminate()
            self._connection = None
            if not isinstance(error, Exception):
                raise
            raise store_error(error, self._database.where) from error
