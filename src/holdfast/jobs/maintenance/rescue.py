"""Take jobs back whose workers died: their leases have run out."""

import logging
from collections.abc import Sequence

from holdfast.events import Listener, notify
from holdfast.jobs.job_events import JobsRescued
from holdfast.jobs.store_port import Maintaining

_log = logging.getLogger("holdfast.maintenance")


class Rescue:
    """Put jobs with leases that have run out back in the queue, or where they belong instead."""

    name = "rescue"

    def __init__(
        self,
        store: Maintaining,
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
        """Rescue everything that there is to rescue now; return how many jobs."""
        total = 0
        while True:
            rescued = await self._store.rescue(limit=self._batch)
            count = len(rescued.requeued) + len(rescued.dead) + len(rescued.cancelled)
            if count:
                total += count
                _log.warning(
                    "%d jobs had lost their workers: %d put back, %d dead letters, %d cancelled",
                    count, len(rescued.requeued), len(rescued.dead), len(rescued.cancelled),
                )  # fmt: skip
                notify(
                    self._listeners,
                    JobsRescued(self.name, rescued.requeued, rescued.dead, rescued.cancelled),
                )
            if count < self._batch:
                return total
