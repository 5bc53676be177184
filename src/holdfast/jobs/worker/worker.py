"""Claim → run → report, until asked to stop.

One loop ticks the store: a tick writes all attempts that have finished since the last one and
claims as many jobs as there are free slots, in one transaction. If the store is another process,
both work in parallel: see `holdfast.jobs.worker.ticks`. Between ticks the loop sleeps until an
attempt ends, the store signals work, or `poll_interval` has passed.

While the store is unreachable the worker waits. Finished attempts stay in memory and are reported
again; a report that was already committed is refused, which does no harm.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from random import Random

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener, notify
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.job_events import WorkerStarted, WorkerStopped
from holdfast.jobs.maintenance.leader import Maintenance
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import ClaimRequest, Store, StoreError, StoreUnavailable
from holdfast.jobs.worker.claim_ahead import ClaimAhead
from holdfast.jobs.worker.executor import Executor
from holdfast.jobs.worker.heartbeat import Heartbeat, LeaseChanges
from holdfast.jobs.worker.isolation.kind_pools import KindPools
from holdfast.jobs.worker.lost_claims import LostClaims
from holdfast.jobs.worker.options import WorkerOptions, new_worker_id
from holdfast.jobs.worker.progress import ProgressWriter
from holdfast.jobs.worker.report import Reporter
from holdfast.jobs.worker.run import Run
from holdfast.jobs.worker.slots import Slots
from holdfast.jobs.worker.start_queue import StartQueue
from holdfast.jobs.worker.store_backoff import StoreBackoff
from holdfast.jobs.worker.threads import HandlerThreads
from holdfast.jobs.worker.ticks import Sent, Ticks
from holdfast.jobs.worker.wakeups import WakeEvent, Wakeups

_log = logging.getLogger("holdfast.worker")

_PROGRESS_EVERY = 0.5
"""Seconds between two writes of one attempt's progress."""
_LAST_REPORTS = 2.0
"""Seconds after the shutdown limit in which the last reports are tried again, and for one look for
lost claims."""


class Worker:
    """Run the jobs of `kinds` from `store` until it is stopped.

    Args:
        store: an open store.
        kinds: the kinds it runs, by name.
        options: how it works.
        clock: where time comes from.
        rng: where jitter comes from.
        listeners: notified of claims, outcomes, refusals, outages and maintenance.
        payload_limit: most bytes of JSON in a job's result.
    """

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, JobKind],
        options: WorkerOptions | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
        listeners: Sequence[Listener] = (),
        payload_limit: int = PAYLOAD_LIMIT,
    ) -> None:
        self._options = options = options or WorkerOptions()
        self._store = store
        self._kinds = dict(kinds)
        self._clock = clock
        self._rng = rng or Random()
        self._listeners = tuple(listeners)
        self._id = new_worker_id(options.worker_id)
        self._limits = {name: kind.concurrency for name, kind in self._kinds.items()}
        known = {kind.queue for kind in self._kinds.values()}
        self._queues = options.queues or tuple(sorted(known))
        if unknown := set(options.queues) - known:
            _log.warning("%s: no known kind of job uses queue %s", self._id, sorted(unknown))
        self._wake = WakeEvent()
        self._outage = Outage(self._id, clock, self._listeners)
        self._backoff = StoreBackoff(self._outage, clock, self._rng)
        self._threads = HandlerThreads("holdfast-handler")
        self._children = KindPools(self._kinds, options.child, clock)
        self._executor = Executor(
            store, clock=clock, rng=self._rng, threads=self._threads, children=self._children,
            payload_limit=payload_limit, on_ended=self._ended, on_interrupt=self._stop_now,
        )  # fmt: skip
        self._slots = Slots(
            self._id, options.concurrency, clock=clock, cleanup_seconds=options.cleanup_seconds,
            listeners=self._listeners, abandon=self._executor.abandon, wake=self._wake.set,
        )  # fmt: skip
        self._progress = ProgressWriter(
            store, clock=clock, every=_PROGRESS_EVERY, find=self._slots.find,
            on_refused=self._slots.lose,
        )  # fmt: skip
        self._wakeups = Wakeups(
            store, options.poll_interval, clock=clock, rng=self._rng, on_work=self._poll
        )
        self._ticks = Ticks(Reporter(store, self._id, self._listeners), self._wake.set)
        self._lost_claims = LostClaims(
            store, self._id, self._slots.held, clock=clock, again_after=options.extend_every
        )
        self._heartbeat = Heartbeat(
            self._id, store.heartbeats, self._slots.held, lease_seconds=options.lease_seconds,
            extend_every=options.extend_every, clock=clock, outage=self._outage,
            on_change=self._leases_changed,
        )  # fmt: skip
        self._loop: asyncio.AbstractEventLoop | None = None
        self._claimed = StartQueue(self._executor.execute, clock, self._wake.set)
        self._ahead = ClaimAhead(self._kinds.values())
        self._due, self._stops = True, 0

    # -- state and control ---------------------------------------------------------------------

    @property
    def worker_id(self) -> str:
        """The id of this worker in the store: its name and a random part."""
        return self._id

    @property
    def running(self) -> int:
        """How many slots are occupied."""
        return len(self._slots.running) - len(self._claimed)

    @property
    def unreported(self) -> int:
        """How many attempts are not reported: of a worker that has ended, those left to leases."""
        return len({run.claim.job_id for run in self._slots.done} | set(self._slots.held))

    @property
    def reachable(self) -> bool:
        """Whether it can work: the store answers, and not every slot is stuck.

        Abandoned handlers that do not end may occupy all slots.
        """
        return not self._outage.lasts and not self._slots.stuck

    def stop(self) -> None:
        """Stop claiming, and finish or release running jobs within `shutdown_seconds`.

        A second call releases them at once. Safe to call from any thread and from a signal handler.
        """
        loop = self._loop
        if loop is None or loop.is_closed():
            self._stops += 1
            return
        loop.call_soon_threadsafe(self._note_stop)

    def cancel_job(self, job_id: str) -> None:
        """Ask the attempt of a cancelled job to stop, if it runs here. Call it from any thread.

        The heartbeat would find out as well, but later.
        """
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._slots.cancel, job_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop`.

        With `until_idle`, return as soon as no job is ready and none is running here. A job whose
        time has not come or whose downstream is held is not waited for; one that becomes due while
        the worker still works is run. It also returns when abandoned handlers occupy every slot.
        """
        if self._loop is not None:
            raise RuntimeError(f"{self._id} is already running")
        self._loop = asyncio.get_running_loop()
        self._progress.open()
        self._children.warm()
        self._heartbeat.start()
        maintenance = self._start_maintenance()
        notify(self._listeners, WorkerStarted(self._id, self._options.concurrency))
        try:
            try:
                await self._serve(until_idle)
            except BaseException:
                self._stops += 2
                raise
            finally:
                await self._drain()
        finally:
            await self._close(maintenance)

    # -- the loop ------------------------------------------------------------------------------

    async def _serve(self, until_idle: bool) -> None:
        while not self._stops:
            answered = self._take_answers()
            if until_idle and answered is not None and self._found_nothing(answered):
                return
            self._slots.check_stuck()
            free, rest = self._claimable(), self._backoff.rest
            if rest <= 0 and self._lost_claims.due:
                if not self._ticks:  # an answer that is still to come wakes this loop
                    await self._release_lost_claims()
            elif rest <= 0 and self._is_worth_a_tick(free):
                await self._send(free)
            elif until_idle and self._slots.stuck and not self._ticks:
                return
            self._start_claimed()
            waits = (rest if rest > 0 else None, self._claimed.seconds_left)
            await self._wake.wait_and_clear(min((each for each in waits if each), default=None))

    @property
    def _free(self) -> int:
        return self._options.concurrency - self.running

    def _start_claimed(self) -> None:
        """Start claimed jobs in the free slots; release them where none becomes free."""
        if self._stops:
            return
        free = self._free
        self._claimed.start(free)
        if free <= 0 and self._claimed.seconds_left == 0:
            self._claimed.release(CancelReason.NOT_STARTED)

    def _claimable(self) -> int:
        """Return how many more jobs may be claimed; none unless the worker counts as alive."""
        if not self._heartbeat.registered:
            return 0
        free, batch = self._free, self._options.batch
        room = max(free, min(free + self._ahead.jobs(free), batch))
        return min(room - len(self._claimed) - self._ticks.asked, batch)

    def _is_worth_a_tick(self, free: int) -> bool:
        done, batch = len(self._slots.done), self._options.batch
        if not self._ticks and not self._claimed:
            return done > 0 or (self._due and free > 0)
        if self._ticks and not self._store.ticks_apart:
            return False
        # Jobs about to start, or a tick about to be answered, will soon fill a larger batch.
        full = done >= batch or (self._due and free >= batch)
        return full and self._ticks.allow(self._slots.done)

    async def _send(self, free: int) -> None:
        """Report and claim."""
        request = None
        if free > 0:
            request = ClaimRequest(free, self._queues, self._limits, self._options.lease_seconds)
            self._due = False
        if not self._store.ticks_apart:
            self._start_claimed()
        tick = self._ticks.send(self._slots.take_done(), request, self._clock.monotonic())
        if self._claimed:  # let the tick be sent before they start
            await asyncio.wait((tick.answer,), timeout=0)

    def _take_answers(self) -> Sent | None:
        """Process all answers; return the last tick that reached the store."""
        last = None
        while (tick := self._ticks.next_answered()) is not None:
            if self._take(tick):
                last = tick
        return last

    def _take(self, tick: Sent) -> bool:
        """Process the answer to a tick; False where the store could not be reached."""
        try:
            result = tick.answer.result()
        except BaseException as error:
            self._slots.unreported(tick.runs)
            if tick.asked:
                self._lost_claims.suspect()
            # While stopping, the other runs must still be reported.
            if not isinstance(error, StoreUnavailable) and not self._stops:
                raise
            self._due = True
            self._backoff.failed(error)
            return False
        self._backoff.succeeded()
        if result.claim_lost:
            self._lost_claims.suspect()
        self._slots.reported(tick.runs)
        held_until = tick.began + self._options.lease_seconds
        for claim in result.claims:
            run = Run(claim, self._kinds[claim.kind], self._progress, self._clock, held_until)
            self._slots.add(run)
            self._claimed.add(run)
        if tick.asked and len(result.claims) >= tick.asked:
            self._due = True
        else:
            self._wakeups.wait(result)
        return True

    async def _release_lost_claims(self) -> None:
        """Release claims whose answers were lost; a store that hangs must not hide a stop."""
        try:
            async with asyncio.timeout(_LAST_REPORTS):
                await self._lost_claims.release()
        except (StoreUnavailable, TimeoutError) as error:
            self._backoff.failed(error)
        self._poll()

    def _found_nothing(self, tick: Sent) -> bool:
        """Say whether the last tick found no ready job and nothing is running here."""
        if not tick.asked or self._ticks or self._claimed or self._slots.busy:
            return False
        # A job requeued by this tick may be missed by the tick already in flight: poll once more.
        self._due = self._due or not tick.alone
        return tick.alone

    def _poll(self) -> None:
        self._due = True
        self._wake.set()

    def _ended(self, run: Run) -> None:
        self._progress.forget(run.context)
        if run.report is not None and run.stop_reason is None:
            self._ahead.note(run.report.duration or 0.0)
        self._slots.ended(run)

    def _leases_changed(self, changes: LeaseChanges) -> None:
        # Called on the heartbeat's thread. With a closed loop nothing runs any more.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._apply, changes)

    def _apply(self, changes: LeaseChanges) -> None:
        self._slots.apply(changes)
        if changes.registered:
            self._poll()

    # -- stopping ------------------------------------------------------------------------------

    def _note_stop(self) -> None:
        self._stops += 1
        self._wake.set()

    def _stop_now(self) -> None:
        self._stops += 2
        self._wake.set()

    async def _drain(self) -> None:
        """Finish or release running jobs within the limit, and report them all."""
        await self._drain_runs()
        self._cancel_ticks()
        if self._lost_claims.due:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_LAST_REPORTS):
                    await self._lost_claims.release()

    async def _drain_runs(self) -> None:
        limit, cleanup = self._options.shutdown_seconds, self._options.cleanup_seconds
        now = self._clock.monotonic()
        cut_at, end_at = now + max(limit - cleanup, limit / 2), now + limit
        await self._ticks.settle(_LAST_REPORTS)
        self._cancel_ticks()
        self._take_answers()
        self._claimed.release(CancelReason.SHUTDOWN)
        runs, end_at, ended = self._slots, max(end_at, self._clock.monotonic()), False
        while runs.busy or self._ticks:
            now = self._clock.monotonic()
            if self._stops >= 2:
                cut_at = end_at = min(now, end_at)
            if now >= cut_at and runs.running:
                runs.stop_all(CancelReason.SHUTDOWN)
                # Handlers that stop at once need not be abandoned.
                await asyncio.wait({run.task for run in runs.running if run.task}, timeout=0.05)
            if now >= end_at and not ended:
                ended = True
                self._cancel_ticks()  # what was not answered is sent again, for the last time
                runs.abandon_all()
            if now >= end_at + _LAST_REPORTS:
                return
            if runs.done and not self._ticks:
                if self._backoff.failures:
                    await self._clock.sleep_async(0.1)
                await self._send(0)
            elif ended and not self._ticks:
                return
            soonest = min(at for at in (cut_at, end_at, end_at + _LAST_REPORTS) if at > now)
            await self._wake.wait_and_clear(soonest - now)
            self._take_answers()

    def _cancel_ticks(self) -> None:
        for tick in self._ticks.cancel():
            self._slots.unreported(tick.runs)
            if tick.asked:
                self._lost_claims.suspect()

    async def _close(self, maintenance: asyncio.Task[None] | None) -> None:
        if maintenance is not None:
            maintenance.cancel()
            await asyncio.gather(maintenance, return_exceptions=True)
        await self._wakeups.close()
        self._slots.close()
        await self._progress.close()
        await self._children.close()
        self._threads.close()
        self._heartbeat.stop()
        if not await asyncio.to_thread(self._heartbeat.join, 5.0):
            _log.warning("%s: the heartbeat thread does not end", self._id)
        self._cancel_ticks()
        if self._slots.done:
            _log.error(
                "%s: %d finished attempts could not be reported; they run again, at the latest "
                "when their leases have expired", self._id, len(self._slots.done),
            )  # fmt: skip
        notify(self._listeners, WorkerStopped(self._id, len(self._slots.done)))
        self._loop = None

    def _start_maintenance(self) -> asyncio.Task[None] | None:
        if self._options.maintenance is None:
            return None
        maintenance = Maintenance(
            self._store, self._kinds, self._options.maintenance, holder=self._id,
            clock=self._clock, rng=self._rng, outage=self._outage, listeners=self._listeners,
        )  # fmt: skip
        return asyncio.create_task(maintenance.run())
