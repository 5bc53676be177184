"""Keep the leases of running attempts alive from a thread of its own.

The thread has its own event loop and its own way into the store, so that a handler which blocks
the worker's loop, for however long, costs no lease. One statement extends all of them.

A lease is certain until `lease_seconds` after the last extension *began*: the store can only have
counted from a later moment. Where the store cannot be reached and that moment passes, the attempt
is told to stop: nobody works without a lease.
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
class News:
    """What a beat found out.

    Args:
        lost: runs whose leases are another's by now.
        doubtful: runs whose leases have run out while the store could not be asked.
        cancelled: runs whose jobs somebody cancelled.
    """

    lost: tuple[Run, ...] = ()
    doubtful: tuple[Run, ...] = ()
    cancelled: tuple[Run, ...] = ()


class Heartbeat:
    """Extend the leases of `held` every `extend_every` seconds until it is stopped.

    Args:
        heartbeats: makes the store's part for this thread; called on the thread.
        held: the runs whose leases are to live, by job. The worker changes it while this thread
            copies it, which is one step that no other thread can come between.
        lease_seconds: how long leases last.
        extend_every: seconds between two extensions.
        outage: told when the store is lost and back.
        tell: called on the heartbeat's thread with what there is to know; must not block.
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
        tell: Callable[[News], None],
    ) -> None:
        self._make = heartbeats
        self._held = held
        self._lease_seconds = lease_seconds
        self._extend_every = extend_every
        # A store that hangs must not keep the thread from noticing that leases run out.
        self._patience = max(1.0, min(extend_every, lease_seconds / 4))
        self._clock = clock
        self._outage = outage
        self._tell = tell
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
        """Ask the thread to end. It closes its way into the store."""
        if self._loop is None or self._stop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._stop.set)
        except RuntimeError:
            # It has ended by itself.
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
        await self._let_go()

    def wait_seconds(self) -> float:
        """Return how long to wait before the next beat; less after one that failed."""
        if not self._failures:
            return self._extend_every
        return min(self._extend_every, _BACKOFF.nominal(self._failures))

    async def beat(self) -> News:
        """Extend all leases once, and tell and return what that showed."""
        runs = tuple(self._held.values())
        if not runs:
            # A heart without leases cannot get through again to say so: the tick's word counts.
            self._failures = 0
            self._outage.back(_PART)
            return News()
        began = self._clock.monotonic()
        try:
            extended = await self._extend(runs)
        except (StoreError, TimeoutError) as error:
            news = self._failed(runs, error)
        except Exception as error:
            # Whatever it is, a heartbeat that ends loses every lease.
            _log.exception("a heartbeat failed")
            news = self._failed(runs, error)
        else:
            news = self._extended(runs, extended, began)
        if news.lost or news.doubtful or news.cancelled:
            self._tell(news)
        return news

    async def _extend(self, runs: tuple[Run, ...]) -> Extended:
        if self._store is None:
            self._store = self._make()
        async with asyncio.timeout(self._patience):
            return await self._store.extend([run.claim.lease for run in runs], self._lease_seconds)

    def _extended(self, runs: tuple[Run, ...], extended: Extended, began: float) -> News:
        self._failures = 0
        self._outage.back(_PART)
        for run in runs:
            run.held_until = began + self._lease_seconds
        if not extended.lost and not extended.cancel_requested:
            return News()
        tokens = {(lease.job_id, lease.token) for lease in extended.lost}
        asked = set(extended.cancel_requested)
        lost = tuple(
            run for run in runs if (run.claim.lease.job_id, run.claim.lease.token) in tokens
        )
        cancelled = tuple(
            run for run in runs if run.claim.lease.job_id in asked and run not in lost
        )
        # Straight from here: the worker's loop may be blocked by the very handler that is meant.
        for run in lost:
            run.context.request_cancel(CancelReason.LEASE_LOST)
        for run in cancelled:
            run.context.request_cancel(CancelReason.REQUESTED)
        return News(lost=lost, cancelled=cancelled)

    def _failed(self, runs: tuple[Run, ...], error: BaseException) -> News:
        self._failures += 1
        self._outage.lost(_PART, error)
        now = self._clock.monotonic()
        doubtful = tuple(run for run in runs if run.held_until <= now)
        for run in doubtful:
            run.context.request_cancel(CancelReason.LEASE_LOST)
        return News(doubtful=doubtful)

    async def _let_go(self) -> None:
        if self._store is None:
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._store.close()
        except Exception as error:
            _log.debug("the heartbeat's connection did not close: %s", error)
