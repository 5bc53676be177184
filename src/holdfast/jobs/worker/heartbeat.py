"""Keep the leases of running attempts alive from a thread of its own.

The thread has its own event loop and its own connection to the store, so that a handler which
blocks the worker's loop cannot lose a lease. One statement extends all leases.

Twice a second the thread checks that the worker is registered as alive, and registers it again
after a lost connection, and asks whether it is to finish or to cancel a job. A worker that is not
registered claims nothing.

A lease is valid until `lease_seconds` after the last successful extension was *sent*: the store
counts from a later moment. When that time passes and the store cannot be reached, the attempt is
asked to stop: without a lease another worker may run the job.
"""

import asyncio
import contextlib
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
_REGISTRATION = "registration"
_BACKOFF = Exponential(base=0.25, multiplier=2, cap=5.0, jitter=0.0)
CHECK_EVERY = 0.5
"""Seconds between two checks of the registration and of requests."""
_CHECK_SECONDS = 1.0
"""Seconds after which a check without an answer has failed. A worker whose session has ended counts
as dead after three, so it must have noticed and be connected again by then."""
_CONNECT_SECONDS = 5.0
"""The same for a worker that is not registered: connecting may take longer than an answer."""


@dataclass(frozen=True, slots=True)
class LeaseChanges:
    """What a heartbeat found out.

    Args:
        lost: runs whose leases are lost.
        doubtful: runs whose leases have expired while the store could not be reached.
        cancelled: runs whose jobs were cancelled.
        registered: the worker has been registered as alive, for the first time or again.
        finish: someone asked the worker to finish.
    """

    lost: tuple[Run, ...] = ()
    doubtful: tuple[Run, ...] = ()
    cancelled: tuple[Run, ...] = ()
    registered: bool = False
    finish: bool = False


class Heartbeat:
    """Extend the leases of `held` every `extend_every` seconds until it is stopped.

    Args:
        worker_id: the id of this start of the worker in the store.
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
        worker_id: str,
        heartbeats: Callable[[], Heartbeats],
        held: Mapping[str, Run],
        *,
        lease_seconds: float,
        extend_every: float,
        clock: Clock,
        outage: Outage,
        on_change: Callable[[LeaseChanges], None],
    ) -> None:
        self.registered = False
        self._worker_id = worker_id
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
        self._finishes = False
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
        beat_at = self._clock.monotonic() + self.wait_seconds()
        while not stop.is_set():
            was_registered = self.registered
            await self.check()
            if was_registered and not self.registered:
                continue  # connect again at once
            if self._clock.monotonic() >= beat_at:
                await self.beat()
                beat_at = self._clock.monotonic() + self.wait_seconds()
            wait = min(CHECK_EVERY, beat_at - self._clock.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await stop.wait()
        await self._close()

    async def check(self) -> None:
        """Register the worker, unless it is registered, and ask for requests."""
        runs = {run.claim.job_id: run for run in tuple(self._held.values())}
        limit = _CHECK_SECONDS if self.registered else _CONNECT_SECONDS
        try:
            async with asyncio.timeout(min(limit, self._call_seconds)):
                store = self._opened()
                await store.register(self._worker_id)
                asked = await store.requests(self._worker_id)
        except Exception as error:
            if not isinstance(error, StoreError | TimeoutError):
                _log.exception("the worker could not be registered")
            self.registered = False
            self._outage.lost(_REGISTRATION, error)
            return
        self._outage.back(_REGISTRATION)
        newly, self.registered = not self.registered, True
        cancelled = tuple(runs[job_id] for job_id in asked.cancel if job_id in runs)
        for run in cancelled:
            run.context.request_cancel(CancelReason.REQUESTED)
        finish, self._finishes = asked.finish and not self._finishes, asked.finish
        if newly or cancelled or finish:
            self._on_change(LeaseChanges(cancelled=cancelled, registered=newly, finish=finish))
        if finish:
            _log.info("%s was asked to finish; %d jobs run", self._worker_id, len(runs))

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
        store = self._opened()
        async with asyncio.timeout(self._call_seconds):
            return await store.extend([run.claim.lease for run in runs], self._lease_seconds)

    def _opened(self) -> Heartbeats:
        if self._store is None:
            self._store = self._open()
        return self._store

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
