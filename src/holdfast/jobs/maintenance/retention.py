"""Delete finished jobs by the retention of their kinds."""

from collections.abc import Iterable, Sequence

from holdfast.events import Listener, notify
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.retention import call_on_deleted
from holdfast.jobs.job_events import JobsDeleted
from holdfast.jobs.store_port import MaintenanceStore


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
                    await call_on_deleted(kind.name, kind.retention, deleted)
                    notify(self._listeners, JobsDeleted(kind.name, deleted))
                if len(deleted) < self._batch:
                    break
        return total
