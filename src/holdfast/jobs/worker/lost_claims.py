"""Release jobs that were claimed by a tick whose answer was lost.

When a tick fails, the store may have committed it: jobs are then leased to this worker, which does
not know of them. Nothing runs them until their leases expire. So after a failed tick the worker
asks which leases are in its name, while no tick is in flight that could change them, and releases
those it does not know. Their handlers never ran: the attempts are not counted.

The server may still be working on a tick that the worker gave up, so it asks once more later.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping

from holdfast.clock import Clock
from holdfast.jobs.model import Finished, Released
from holdfast.jobs.store_port import WorkerStore
from holdfast.jobs.worker.run import Run

_log = logging.getLogger("holdfast.worker")


class LostClaims:
    """Find and release the claims of one worker that it does not know of.

    Args:
        held: the runs whose leases this worker holds, by job id.
        again_after: seconds after which the second look follows.
    """

    def __init__(
        self,
        store: WorkerStore,
        worker_id: str,
        held: Mapping[str, Run],
        *,
        clock: Clock,
        again_after: float,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._held = held
        self._clock = clock
        self._again_after = again_after
        self._looks: deque[float] = deque()

    @property
    def due(self) -> bool:
        """Whether to look now, once no tick is in flight."""
        return bool(self._looks) and self._looks[0] <= self._clock.monotonic()

    def suspect(self) -> None:
        """Note that the answer to a claim was lost."""
        now = self._clock.monotonic()
        self._looks = deque((now, now + self._again_after))

    async def release(self, within: float | None = None) -> None:
        """Release what this worker does not know of. No tick may be in flight.

        Raises:
            StoreError: the store could not be asked; call it again.
            TimeoutError: it took longer than `within` seconds; call it again.
        """
        async with asyncio.timeout(within):
            await self._release()

    async def _release(self) -> None:
        known = {run.claim.lease.job_id: run.claim.lease.token for run in self._held.values()}
        unknown = [
            lease
            for lease in await self._store.leases(self._worker_id)
            if known.get(lease.job_id) != lease.token
        ]
        if unknown:
            reports = [Finished(lease, Released(reason="answer lost"), 0.0) for lease in unknown]
            await self._store.tick(self._worker_id, reports)
            _log.warning(
                "%s: released %d jobs whose claim was not answered", self._worker_id, len(unknown)
            )
        if self._looks:
            self._looks.popleft()
