"""Keep a worker and its leases alive, from a thread of their own."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.model import Lease
from holdfast.jobs.store_port import Extended, StoreClosed
from holdfast.store.row_mapping import requests_from
from holdfast.store.sqlite import control, workers
from holdfast.store.sqlite.read_pool import ReadPool
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Writer

T = TypeVar("T")


class SQLiteHeartbeats:
    """Extends leases through the writer; may be awaited on any event loop."""

    def __init__(
        self, writer: Writer, reads: ReadPool, clock: Clock, kinds: Sequence[str] | None = None
    ) -> None:
        self._writer = writer
        self._reads = reads
        self._clock = clock
        self._kinds = kinds
        self._registered: str | None = None
        self._register_at = 0.0

    async def register(self, worker_id: str) -> None:
        """Register the worker with the process it runs in."""
        began = self._clock.monotonic()
        if self._registered != worker_id or began >= self._register_at:
            await self._write(lambda tx: workers.register(tx, worker_id, self._kinds))
            self._registered = worker_id
            self._register_at = began + workers.REGISTER_EVERY

    async def extend(
        self, leases: Sequence[Lease], lease_seconds: float, *, now: float | None = None
    ) -> Extended:
        """Extend all `leases` to `lease_seconds` from now."""
        return await self._write(lambda tx: control.extend(tx, leases, lease_seconds), now)

    async def requests(self, worker_id: str) -> WorkerRequests:
        """Return which jobs are to be cancelled, and whether the worker is to finish."""
        query, parameters = "worker_requests", {"worker": worker_id}
        return requests_from(await self._reads.read(lambda view: view.rows(query, parameters)))

    async def close(self) -> None:
        """Remove the worker, which ends in order; the connection belongs to the store's writer."""
        worker_id, self._registered = self._registered, None
        if worker_id is not None:
            try:
                await self._write(lambda tx: workers.forget(tx, [worker_id]))
            except StoreClosed:
                return  # the process ends: that says the same

    async def _write(self, work: Callable[[Transaction], T], now: float | None = None) -> T:
        value, _ = await asyncio.wrap_future(self._writer.submit(work, now))
        return value
