"""Fail waiting and running jobs whose deadlines have passed."""

import logging
from collections.abc import Sequence

from holdfast.events import Listener, notify
from holdfast.jobs.failure_log import log_final_failure
from holdfast.jobs.job_events import JobsTimedOut
from holdfast.jobs.model import DeadLetterReason
from holdfast.jobs.report_rules import TIMED_OUT
from holdfast.jobs.store_port import MaintenanceStore

_log = logging.getLogger("holdfast.maintenance")


class Deadlines:
    """Fail unfinished jobs with `TIMEOUT` once their deadlines have passed."""

    name = "deadlines"

    def __init__(
        self,
        store: MaintenanceStore,
        *,
        interval: float,
        batch: int = 500,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.interval = interval
        self._store = store
        self._batch = batch
        self._listeners = listeners

    async def round(self) -> int:
        """Fail all jobs past their deadlines; return how many."""
        total = 0
        while True:
            expired = await self._store.expire_deadlines(limit=self._batch)
            if expired:
                total += len(expired)
                _log.warning("%d jobs passed their deadlines", len(expired))
                for job in expired:
                    log_final_failure(_log, job, TIMED_OUT, DeadLetterReason.DEADLINE)
                ids = tuple(job.job_id for job in expired)
                notify(self._listeners, JobsTimedOut(self.name, ids))
            if len(expired) < self._batch:
                return total
