"""Rescue jobs whose workers died: the store sees that the process is gone, or the lease expires.

Which status they get is in `holdfast.jobs.report_rules.rescued_status`. A job that is queued again
may start at once.
"""

import logging
from collections.abc import Sequence

from holdfast.events import Listener, notify
from holdfast.jobs.failure_log import log_final_failure, log_retry
from holdfast.jobs.job_events import JobsRescued
from holdfast.jobs.model import DeadLetterReason
from holdfast.jobs.report_rules import LEASE_LOST
from holdfast.jobs.store_port import MaintenanceStore, Rescued

_log = logging.getLogger("holdfast.maintenance")


class Rescue:
    """Requeue the jobs of lost workers; fail or cancel those that cannot run again."""

    name = "rescue"

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
        """Rescue all jobs of lost workers; return how many."""
        total = 0
        while True:
            rescued = await self._store.rescue(limit=self._batch)
            count = len(rescued.requeued) + len(rescued.dead) + len(rescued.cancelled)
            if count:
                total += count
                _log.warning(
                    "%d jobs lost their workers: %d requeued, %d dead letters, %d cancelled",
                    count, len(rescued.requeued), len(rescued.dead), len(rescued.cancelled),
                )  # fmt: skip
                _log_jobs(rescued)
                notify(
                    self._listeners,
                    JobsRescued(self.name, rescued.requeued, rescued.dead, rescued.cancelled),
                )
            if count < self._batch:
                return total


def _log_jobs(rescued: Rescued) -> None:
    requeued, dead = set(rescued.requeued), set(rescued.dead)
    for job in rescued.jobs:
        if job.job_id in requeued:
            log_retry(_log, job, LEASE_LOST)
        elif job.job_id in dead:
            log_final_failure(_log, job, LEASE_LOST, DeadLetterReason.LEASE_LOST)
