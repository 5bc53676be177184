"""Keep the leases of running attempts alive from a thread of its own.

The thread has its own event loop and its own connection to the store, so that a handler which
blocks the worker's loop cannot lose a lease. One statement extends all leases.

A lease is valid until `lease_seconds` after the last successful extension was *sent*: the store
counts from a later moment. When that time passes and the store cannot be reached, the attempt is
asked to stop: without a lease another worker may run the job.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import Extended, Heartbeats, StoreError
from holdfast.jobs.worker.run import Run
from holdfast.resilience.backoff import Exponential

_log = logging.getLogger("holdfast.worker")

_PART = "heartbeat"
_BACKOFF = Exponential(base=0.25, multiplier=2, cap=5.0, jitter=0.0)


@dataclass(frozen=True, slots=True)
class LeaseChanges:
    """What a heartbeat found out.

    Args:
        lost: runs whose leases are lost.
        doubtful: runs whose leases have expired while the store could not be reached.
        cancelled: runs whose jobs were cancelled.
    """

    lost: tuple[Run, ...] = ()
    doubtful: tuple[Run, ...] = ()
    cancelled: tuple[Run, ...] = ()


class Heartbeat:
    """Extend the leases of `held` every `extend_every` seconds until it is stopped.

    Args:
        heartbeats: opens the store's heartbeat connection; called on the thread.
        held: the runs whose leases are extended, by job id. The worker changes it while this thread
            copies it; the copy is atomic.
        lease_seconds: how long leases last.
        extend_every: seconds between two extensions.
        outage: records when the store becomes unreachable and reachable.
        on_change: called on the heartbeat's thread; must not block.
    """

    def __init__(
        self,
        heartbeats: Callable[[], Heartbeats],
        held: Mapping[str, Run],
        *,
        lease_seconds: float,
        extend_every: float,
        clock: Clock,
        outage: Outage,
        on_change: Callable[[LeaseChanges], None],
    ) -> None:
        self._open = heartbeats
        self._held = held
        self._lease_seconds = lease_seconds
        self._extend_every = extend_every
        # A store that hangs must not keep the thread from noticing that leases expire.
        self._call_seconds = max(1.0, min(extend_every, lease_seconds / 4))
        self._clock = clock
        self._outage = outage
        self._on_change = on_change
        self._store: Heartbeats | None = None
        self._failures = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def start(self) -> None:
        """Start the thread; return when it is ready to be stopped."""
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(ready)), name="holdfast-heartbeat", daemon=True
        )
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Ask the thread to end. It closes its connection to the store."""
        if self._loop is None or self._stop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._stop.set)
        except RuntimeError:
            # The thread has already ended.
            return

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the thread to end; return whether it has."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    async def _live(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop = asyncio.Event()
        ready.set()
        while not stop.is_set():
            try:
                async with asyncio.timeout(self.wait_seconds()):
                    await stop.wait()
            except TimeoutError:
                await self.beat()
        await self._close()

    def wait_seconds(self) -> float:
        """Return how long to wait before the next beat; less after one that failed."""
        if not self._failures:
            return self._extend_every
        return min(self._extend_every, _BACKOFF.nominal(self._failures))

    async def beat(self) -> LeaseChanges:
        """Extend all leases once; return what changed, after reporting it to `on_change`."""
        runs = tuple(self._held.values())
        if not runs:
            # With no leases left nothing is sent, so only a successful tick clears the outage.
            self._failures = 0
            self._outage.back(_PART)
            return LeaseChanges()
        began = self._clock.monotonic()
        try:
            extended = await self._extend(runs)
        except (StoreError, TimeoutError) as error:
            changes = self._failed(runs, error)
        except Exception as error:
            # A heartbeat that stopped here would lose every lease.
            _log.exception("a heartbeat failed")
            changes = self._failed(runs, error)
        else:
            changes = self._extended(runs, extended, began)
        if changes.lost or changes.doubtful or changes.cancelled:
            self._on_change(changes)
        return changes

    async def _extend(self, runs: tuple[Run, ...]) -> Extended:
        if self._store is None:
            self._store = self._open()
        async with asyncio.timeout(self._call_seconds):
            return await self._store.extend([run.claim.lease for run in runs], self._lease_seconds)

    def _extended(self, runs: tuple[Run, ...], extended: Extended, began: float) -> LeaseChanges:
        self._failures = 0
        self._outage.back(_PART)
        for run in runs:
            run.held_until = began + self._lease_seconds
        if not extended.lost and not extended.cancel_requested:
            return LeaseChanges()
        tokens = {(lease.job_id, lease.token) for lease in extended.lost}
        asked = set(extended.cancel_requested)
        lost = tuple(
            run for run in runs if (run.claim.lease.job_id, run.claim.lease.token) in tokens
        )
        cancelled = tuple(
            run for run in runs if run.claim.lease.job_id in asked and run not in lost
        )
        # From this thread: the worker's loop may be blocked by the handler that is to stop.
        for run in lost:
            run.context.request_cancel(CancelReason.LEASE_LOST)
        for run in cancelled:
            run.context.request_cancel(CancelReason.REQUESTED)
        return LeaseChanges(lost=lost, cancelled=cancelled)

    def _failed(self, runs: tuple[Run, ...], error: BaseException) -> LeaseChanges:
        self._failures += 1
        self._outage.lost(_PART, error)
        now = self._clock.monotonic()
        doubtful = tuple(run for run in runs if run.held_until <= now)
        for run in doubtful:
            run.context.request_cancel(CancelReason.LEASE_LOST)
        return LeaseChanges(doubtful=doubtful)

    async def _close(self) -> None:
        if self._store is None:
            return
        try:
            async with asyncio.timeout(self._call_seconds):
                await self._store.close()
        except Exception as error:
            _log.debug("the heartbeat's connection did not close: %s", error)
