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
from dataclasses import replace
from random import Random

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener
from holdfast.jobs.declare.app import kinds_by_stored_name
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.maintenance.leader import Maintenance
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import Store, StoreError, StoreUnavailable
from holdfast.jobs.worker.attempt_port import NO_SUPPORT, AttemptPort, HandlerSupport
from holdfast.jobs.worker.claim_request import claim_request
from holdfast.jobs.worker.drain import LAST_REPORTS, Drain, DrainSteps
from holdfast.jobs.worker.executor import Executor
from holdfast.jobs.worker.heartbeat import Heartbeat, LeaseChanges
from holdfast.jobs.worker.isolation.kind_pools import KindPools
from holdfast.jobs.worker.lifespans import Lifespans
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
from holdfast.jobs.worker.worker_log import worker_started, worker_stopped

_log = logging.getLogger("holdfast.worker")


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
        support: what the engine gives to handlers.
    """

    _heartbeat_type, _pools_type = Heartbeat, KindPools

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
        support: HandlerSupport = NO_SUPPORT,
    ) -> None:
        self._options = options = options or WorkerOptions()
        self._store = store
        self._kinds = dict(kinds)
        self._clock = clock
        self._rng = rng or Random()
        self._listeners = tuple(listeners)
        self._id = new_worker_id(options.worker_id)
        self._by_name = kinds_by_stored_name(self._kinds.values())
        self._request = claim_request(self._id, self._by_name, options)
        self._wake = WakeEvent()
        self._outage = Outage(self._id, clock, self._listeners)
        self._backoff = StoreBackoff(self._outage, clock, self._rng)
        self._threads = HandlerThreads("holdfast-handler")
        self._reporter = Reporter(store, self._id, self._listeners, options)
        self._children = self._pools_type(self._kinds, options.child, clock)
        self._executor = Executor(
            store, clock=clock, rng=self._rng, threads=self._threads, children=self._children,
            payload_limit=payload_limit, on_ended=self._ended,
            on_interrupt=lambda: self._note_stop(2),
        )  # fmt: skip
        self._slots = Slots(
            self._id, options.concurrency, clock=clock, cleanup_seconds=options.cleanup_seconds,
            listeners=self._listeners, abandon=self._executor.abandon, wake=self._wake.set,
        )  # fmt: skip
        self._lifespans = Lifespans(support.apps, clock, options.shutdown_seconds)
        progress = ProgressWriter(
            store, clock=clock, find=self._slots.find, on_refused=self._slots.lose
        )
        self._port = AttemptPort(
            store, support, self._lifespans, progress, clock, options.longest_transaction
        )
        self._wakeups = Wakeups(
            store, options.poll_interval, clock=clock, rng=self._rng, on_work=self._poll
        )
        self._ticks = Ticks(self._reporter, self._wake.set)
        self._lost_claims = LostClaims(
            store, self._id, self._slots.held, clock=clock, again_after=options.extend_every
        )
        self._heartbeat = self._heartbeat_type(
            self._id, lambda: store.heartbeats(tuple(self._by_name)), self._slots.held,
            lease_seconds=options.lease_seconds, extend_every=options.extend_every, clock=clock,
            outage=self._outage, on_change=self._leases_changed,
        )  # fmt: skip
        self._loop: asyncio.AbstractEventLoop | None = None
        self._claimed = StartQueue(
            self._slots, options, self._kinds.values(), execute=self._executor.execute,
            clock=clock, wake=self._wake.set,
        )  # fmt: skip
        self._due, self._stops, self.finishing = True, 0, False
        self._ends_at: float | None = None

    # -- state and control ---------------------------------------------------------------------

    @property
    def worker_id(self) -> str:
        """The id of this worker in the store: its name and a random part."""
        return self._id

    @property
    def running(self) -> int:
        """How many slots are occupied."""
        return self._claimed.occupied

    @property
    def unfinished_lifespans(self) -> int:
        """How many lifespans did not end in time when this worker ended."""
        return self._lifespans.unfinished

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
        if (loop := self._loop) is None or loop.is_closed():
            self._stops += 1
            return
        loop.call_soon_threadsafe(self._note_stop)

    def finish(self) -> None:
        """Be `finishing`: claim no more, and return from `run` when running jobs have ended."""
        self.finishing = True
        self._wake.set()

    def cancel_job(self, job_id: str) -> None:
        """Ask the attempt of a cancelled job to stop, if it runs here. Call it from any thread.

        The heartbeat would find out as well, but later.
        """
        if (loop := self._loop) is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._slots.cancel, job_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop`.

        With `until_idle`, return as soon as no job is ready and none is running here. A job whose
        time has not come or whose downstream is held is not waited for; one that becomes due while
        the worker still works is run. It also returns when abandoned handlers occupy every slot.

        Raises:
            LifespanFailed: the lifespan of an app has raised; nothing was claimed.
        """
        if self._loop is not None:
            raise RuntimeError(f"{self._id} is already running")
        self._loop = asyncio.get_running_loop()
        try:
            if await self._lifespans.enter(lambda: self._stops > 0, self._wake):
                await self._work(until_idle)
        finally:
            await self._lifespans.leave(self._ends_at, hurry=self._stops >= 2)
            self._loop = None

    async def _work(self, until_idle: bool) -> None:
        self._port.open()
        self._children.warm()
        self._heartbeat.start()
        maintenance = self._start_maintenance()
        worker_started(
            self._id, self._kinds, self._request.queues, self._options, self._store, self._listeners
        )
        try:
            try:
                await self._serve(until_idle)
            except BaseException:
                self._note_stop(2)
                raise
            finally:
                await self._drain()
        finally:
            await self._close(maintenance)

    # -- the loop ------------------------------------------------------------------------------

    async def _serve(self, until_idle: bool) -> None:
        while not self._stops:
            if self._may_return(self._take_answers(), until_idle):
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
            await self._wake.wait_and_clear(self._claimed.next_look(rest))

    def _claimable(self) -> int:
        """Return how many more jobs may be claimed; none unless the worker counts as alive."""
        claims = self._heartbeat.registered and not self.finishing
        return self._claimed.claimable(self._ticks.asked) if claims else 0

    def _is_worth_a_tick(self, free: int) -> bool:
        done, batch = len(self._slots.done), self._options.batch
        if not self._ticks and (not self._claimed or self._claimed.waits_for_reports):
            return done > 0 or (self._due and free > 0)
        if self._ticks and not self._store.ticks_apart:
            return False
        # Jobs about to start, or a tick about to be answered, will soon fill a larger batch.
        full = done >= batch or (self._due and free >= batch)
        return full and self._ticks.allow(self._slots.done)

    def _start_claimed(self) -> None:
        settled = not self._ticks.asked and not self._lost_claims.due
        self._claimed.start(settled=settled, stopping=bool(self._stops))

    async def _send(self, free: int) -> None:
        """Report and claim."""
        request = None
        if free > 0:
            request, self._due = replace(self._request, limit=free), False
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
        self._port.note_time(result.now)
        if tick.asked:
            kinds, port, clock = self._by_name, self._port, self._clock
            self._claimed.add(
                [Run(each, kinds[each.kind], port, clock, held_until) for each in result.claims]
            )
        if tick.asked and len(result.claims) >= tick.asked:
            self._due = True
        else:
            self._wakeups.wait(result)
        return True

    async def _release_lost_claims(self) -> None:
        """Release claims whose answers were lost; a store that hangs must not hide a stop."""
        try:
            await self._lost_claims.release(within=LAST_REPORTS)
        except (StoreUnavailable, TimeoutError) as error:
            self._backoff.failed(error)
        self._poll()

    def _may_return(self, tick: Sent | None, until_idle: bool) -> bool:
        """Say whether nothing runs here, and nothing more is to be claimed."""
        if self._ticks or self._claimed or self._slots.busy:
            return False
        if self.finishing or not until_idle or tick is None or not tick.asked:
            return self.finishing
        # A job requeued by this tick may be missed by the tick already in flight: poll once more.
        self._due = self._due or not tick.alone
        return tick.alone

    def _poll(self) -> None:
        self._due = True
        self._wake.set()

    def _ended(self, run: Run) -> None:
        self._port.forget(run.context)
        if run.committed is not None:
            report, result = run.committed
            self._reporter.committed(run, report, result)
            self._due = True  # no tick reports it, so none would claim in its place
        self._claimed.note(run)
        self._slots.ended(run)

    def _leases_changed(self, changes: LeaseChanges) -> None:
        # Called on the heartbeat's thread. With a closed loop nothing runs any more.
        if (loop := self._loop) is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._apply, changes)

    def _apply(self, changes: LeaseChanges) -> None:
        self._slots.apply(changes)
        if changes.registered:
            self._poll()
        if changes.finish:
            self.finish()

    # -- stopping ------------------------------------------------------------------------------

    def _note_stop(self, times: int = 1) -> None:
        self._stops += times
        self._executor.stopping = True
        self._wake.set()

    async def _drain(self) -> None:
        """Finish or release running jobs within the limit, and report them all."""
        self._ends_at = self._clock.monotonic() + self._options.shutdown_seconds
        drain = Drain(self._slots, self._claimed, self._ticks, self._backoff, self._options)
        steps = DrainSteps(
            lambda: self._stops >= 2, self._take_answers, lambda: self._send(0), self._cancel_ticks
        )
        await drain.run(steps, self._clock, self._wake)
        self._cancel_ticks()
        if self._lost_claims.due:
            with contextlib.suppress(StoreError, TimeoutError):
                await self._lost_claims.release(within=LAST_REPORTS)

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
        await self._port.close()
        await self._children.close()
        self._threads.close()
        self._heartbeat.stop()
        if not await asyncio.to_thread(self._heartbeat.join, 5.0):
            _log.warning("%s: the heartbeat thread does not end", self._id)
        self._cancel_ticks()
        worker_stopped(self._id, len(self._slots.done), self._listeners)

    def _start_maintenance(self) -> asyncio.Task[None] | None:
        if self._options.maintenance is None:
            return None
        maintenance = Maintenance(
            self._store, self._kinds, self._options.maintenance, holder=self._id,
            clock=self._clock, rng=self._rng, outage=self._outage, listeners=self._listeners,
        )  # fmt: skip
        return asyncio.create_task(maintenance.run())
