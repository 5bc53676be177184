"""Delete finished jobs by the retention of their kinds."""

import inspect
import logging
from collections.abc import Iterable, Sequence

from holdfast.events import Listener, notify
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.job_events import JobsDeleted
from holdfast.jobs.store_port import Deleted, MaintenanceStore

_log = logging.getLogger("holdfast.maintenance")


class RetentionService:
    """Apply each kind's `Retention`, in batches, oldest jobs first."""

    name = "retention"

    def __init__(
        self,
        store: MaintenanceStore,
        kinds: Iterable[JobKind],
        *,
        interval: float,
        batch: int = 500,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.interval = interval
        self._store = store
        self._batch = batch
        self._listeners = listeners
        self._rules = tuple(
            (kind, rule)
            for kind in kinds
            for name in kind.names
            for rule in kind.retention.rules(name)
        )

    async def round(self) -> int:
        """Delete all jobs past their retention; return how many."""
        total = 0
        for kind, rule in self._rules:
            while True:
                deleted = await self._store.delete_finished(rule, limit=self._batch)
                if deleted:
                    total += len(deleted)
                    await self._call_on_deleted(kind, deleted)
                    notify(self._listeners, JobsDeleted(kind.name, deleted))
                if len(deleted) < self._batch:
                    break
        return total

    async def _call_on_deleted(self, kind: JobKind, deleted: Sequence[Deleted]) -> None:
        on_deleted = kind.retention.on_deleted
        if on_deleted is None:
            return
        for job in deleted:
            try:
                answer = on_deleted(job)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                # One failure must not keep the files of the other jobs.
                _log.exception("%s: on_deleted failed for job %s", kind.name, job.id)
