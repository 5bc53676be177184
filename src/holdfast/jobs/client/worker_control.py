"""List the workers of the fleet, and ask one to finish."""

from collections.abc import Mapping

from holdfast.jobs.control_port import WorkerRecord
from holdfast.jobs.declare.validation import shown
from holdfast.jobs.exceptions import UnknownWorker
from holdfast.jobs.operations_port import WorkerLoad
from holdfast.jobs.store_port import Store

LOAD_SECONDS = 300.0
"""Seconds over which the load of workers is measured."""


class WorkerControl:
    """List workers, and ask one to finish."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self) -> tuple[WorkerRecord, ...]:
        """Return the workers of all processes that are alive or have jobs, by id."""
        return await self._store.workers()

    async def loads(self, seconds: float = LOAD_SECONDS) -> Mapping[str, WorkerLoad]:
        """Return what workers have done in the last `seconds`, by their ids.

        Only the newest part of the history is read, so the figures of a busy fleet may be too low.
        """
        since = await self._store.ping() - seconds
        return {load.worker_id: load for load in await self._store.worker_loads(since)}

    async def finish(self, worker_id: str) -> WorkerRecord:
        """Ask a worker to claim no more jobs and to end after those it runs.

        It finds out within seconds. Its jobs may take as long as they need; `holdfast worker` then
        ends with exit code 0, and `engine.work` returns.

        Raises:
            UnknownWorker: no worker of that id is alive or has jobs.
        """
        if not isinstance(worker_id, str):
            raise TypeError(f"a worker is named by its id, got {shown(worker_id)}")
        if not await self._store.request_finish(worker_id):
            raise UnknownWorker(worker_id)
        found = (worker for worker in await self.list() if worker.id == worker_id)
        # It may have ended meanwhile.
        return next(found, WorkerRecord(worker_id, 0))
