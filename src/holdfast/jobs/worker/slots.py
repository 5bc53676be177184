"""The runs of a worker: which take a slot, which have a lease, whose time is up.

Asking a run to stop, and giving up on one that does not, is here; why is the caller's business.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.clock import Clock
from holdfast.events import Event, Listener, notify
from holdfast.jobs.declare.context import CancelReason, JobContext
from holdfast.jobs.job_events import AttemptAbandoned, LeaseLost, WorkerStuck
from holdfast.jobs.worker.heartbeat import News
from holdfast.jobs.worker.run import Run

_log = logging.getLogger("holdfast.worker")


class Supervisor:
    """Keep an eye on the runs of one worker. Everything happens on its event loop.

    Attributes:
        running: runs whose handlers have not ended; each takes a slot.
        held: runs whose leases are ours, by job: not reported yet, or the report is not accepted
            yet.
        done: runs with a report to send, about in the order in which they ended.
        stuck: nothing could run here any more when `note_stuck` looked.

    Args:
        worker_id: whose they are.
        slots: how many may run at once.
        cleanup_seconds: how long a run that was asked to stop may take to end.
        abandon: judges and reports a run that does not end.
        wake: told that there is something to report or a slot to fill.
    """

    def __init__(
        self,
        worker_id: str,
        slots: int,
        *,
        clock: Clock,
        cleanup_seconds: float,
        listeners: Sequence[Listener],
        abandon: Callable[[Run], None],
        wake: Callable[[], None],
    ) -> None:
        self.running: set[Run] = set()
        self.held: dict[str, Run] = {}
        self.done: list[Run] = []
        self.stuck = False
        self._worker_id = worker_id
        self._slots = slots
        self._clock = clock
        self._cleanup_seconds = cleanup_seconds
        self._listeners = listeners
        self._give_up = abandon
        self._wake = wake
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")

    @property
    def busy(self) -> bool:
        """Whether an attempt of ours is not yet written down as ended."""
        return bool(self.held or self.done)

    def note_stuck(self) -> None:
        """Look whether runs that were given up, and do not end, take all slots; say so once."""
        running, slots, before = self.running, self._slots, self.stuck
        self.stuck = len(running) >= slots and all(run.abandoned for run in running)
        if self.stuck and not before:
            _log.error(
                "%s: all slots (%d) are taken by handlers that were asked to stop and do not end; "
                "nothing runs until one does. Restart it, and declare what may hang with "
                'isolation="process"', self._worker_id, slots,
            )  # fmt: skip
            self._tell(WorkerStuck(self._worker_id, slots))

    def add(self, run: Run) -> None:
        """Take care of a run from now on."""
        job_id = run.claim.lease.job_id
        before = self.held.get(job_id)
        if before is not None:
            # The job came back to the very worker that had lost it.
            self.lose(before)
        self.running.add(run)
        self.held[job_id] = run
        if run.ends_at is not None and run.ends_at < self._alarm_at:
            self._set_alarm(run.ends_at)

    def find(self, context: JobContext) -> Run | None:
        """Return the run of a context while it may still be written about."""
        run = self.held.get(context.job_id)
        if run is None or run.context is not context or run.abandoned or run not in self.running:
            return None
        return run

    def ended(self, run: Run) -> None:
        """Note that a run's handler has ended: its slot is free."""
        self.running.discard(run)
        if not run.abandoned:
            self._settle(run)
        self._wake()

    def take_done(self) -> Sequence[Run]:
        """Return `done`, which is empty after that: their reports are about to be sent."""
        done, self.done = self.done, []
        return done

    def unreported(self, runs: Sequence[Run]) -> None:
        """Put runs back whose reports were sent and did not get through."""
        self.done[:0] = runs

    def reported(self, runs: Sequence[Run]) -> None:
        """Note that the store has taken the reports of `runs`."""
        held = self.held
        for run in runs:
            job_id = run.claim.lease.job_id
            if held.get(job_id) is run:
                del held[job_id]

    def close(self) -> None:
        """Let no alarm ring any more."""
        if self._alarm is not None:
            self._alarm.cancel()

    # -- asking runs to stop -------------------------------------------------------------------

    def cut(self, run: Run, reason: CancelReason) -> None:
        """Ask a run to stop, and give it time to clean up. The first reason stays."""
        if run.cut is not None or run not in self.running:
            return
        run.cut = reason
        run.context.request_cancel(reason)
        run.ends_at = self._clock.monotonic() + self._cleanup_seconds
        if run.ends_at < self._alarm_at:
            self._set_alarm(run.ends_at)
        if run.call is not None:
            run.call.ask(reason)
        elif run.in_loop and run.task is not None:
            run.task.cancel()

    def cancel(self, job_id: str) -> None:
        """Ask the run of a job that somebody cancelled to stop, where it is one of ours."""
        run = self.held.get(job_id)
        if run is not None:
            self.cut(run, CancelReason.REQUESTED)

    def cut_all(self, reason: CancelReason) -> None:
        """Ask all runs to stop."""
        for run in tuple(self.running):
            self.cut(run, reason)

    def abandon(self, run: Run) -> None:
        """Give up on a run that was cut: report it, and drop what it may still say."""
        if run.abandoned or run not in self.running:
            return
        self._give_up(run)
        self._settle(run)
        self._wake()
        if run.cut is not CancelReason.SHUTDOWN:
            _log.warning("%r does not stop; its slot stays taken until it ends", run)
        self._tell(AttemptAbandoned(run.kind.name, run.claim.job_id, run.claim.attempt))

    def abandon_all(self) -> None:
        """Give up on all runs."""
        for run in tuple(self.running):
            self.abandon(run)

    def hear(self, news: News) -> None:
        """Act on what a heartbeat found out."""
        for run in news.lost:
            self.lose(run, certain=True)
        for run in news.doubtful:
            self.lose(run, certain=False)
        for run in news.cancelled:
            self.cut(run, CancelReason.REQUESTED)

    def lose(self, run: Run, *, certain: bool = True) -> None:
        """Act on a lease that is another's by now, or, if not `certain`, may be."""
        lease = run.claim.lease
        if self.held.get(lease.job_id) is not run or (run.cut is not None and not certain):
            return
        if run.report is not None:
            # Its own report may be what ended the lease; if it was another, that is refused.
            return
        if certain:
            run.lost = True
            self._let_go(run)
        _log.warning("%r lost its lease%s", run, "" if certain else ", as far as is known")
        self._tell(LeaseLost(run.kind.name, lease.job_id, lease.token, certain))
        self.cut(run, CancelReason.LEASE_LOST)

    # -- time ----------------------------------------------------------------------------------

    def _set_alarm(self, at: float) -> None:
        # One timer for all runs: a timer each would cost as much as the rest of a short job.
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        seconds = max(0.0, at - self._clock.monotonic())
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        """Look at the runs whose time is up, and set the alarm for the next one."""
        self._alarm, self._alarm_at = None, float("inf")
        now = self._clock.monotonic()
        for run in tuple(self.running):
            if run.ends_at is None or run.ends_at > now:
                continue
            if run.waits and not run.by_deadline and run.cut is None:
                # Its time begins with its handler. Looked at again in time, whenever that is.
                run.count_from(now)
            elif run.cut is None:
                self.cut(run, CancelReason.TIMEOUT)
            else:
                self.abandon(run)
        soonest = min((run.ends_at for run in self.running if run.ends_at), default=None)
        if soonest is not None and soonest < self._alarm_at:
            self._set_alarm(soonest)

    def _settle(self, run: Run) -> None:
        if run.report is not None:
            self.done.append(run)
        else:
            self._let_go(run)

    def _let_go(self, run: Run) -> None:
        job_id = run.claim.lease.job_id
        if self.held.get(job_id) is run:
            del self.held[job_id]

    def _tell(self, event: Event) -> None:
        if self._listeners:
            notify(self._listeners, event)
