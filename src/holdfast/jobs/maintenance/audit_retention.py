"""Delete old entries of the audit log."""

from holdfast.jobs.store_port import OperationsStore

MAX_AGE = 90 * 86_400.0
"""Seconds that entries are kept for."""
MAX_COUNT = 100_000
"""Entries that are kept at most."""


class AuditRetention:
    """Keep the audit log short: entries of 90 days, and the newest 100 000."""

    name = "audit_retention"

    def __init__(self, store: OperationsStore, *, interval: float, batch: int = 500) -> None:
        self.interval = interval
        self._store = store
        self._batch = batch

    async def round(self) -> int:
        """Delete all entries past their time; return how many."""
        total = 0
        while True:
            deleted = await self._store.trim_audit(
                max_age=MAX_AGE, max_count=MAX_COUNT, limit=self._batch
            )
            total += deleted
            if deleted < self._batch:
                return total
