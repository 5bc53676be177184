"""The runs of a worker: which occupy a slot, which hold a lease, which have run out of time.

Asks runs to stop and abandons those that do not; the reason comes from the caller.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.clock import Clock
from holdfast.events import Event, Listener, notify
from holdfast.jobs.declare.context import CancelReason, JobContext
from holdfast.jobs.job_events import AttemptAbandoned, LeaseLost, WorkerStuck
from holdfast.jobs.model import Completed
from holdfast.jobs.worker.heartbeat import LeaseChanges
from holdfast.jobs.worker.run import Run

_log = logging.getLogger("holdfast.worker")

TICK_CHARACTERS = 8 * 1024 * 1024
"""Most characters of results and of new jobs' arguments that one tick reports; a single larger
report is a tick of its own."""


class Slots:
    """Keep track of the runs of one worker. Everything happens on its event loop.

    Attributes:
        running: runs whose handlers have not ended; each occupies a slot.
        held: runs whose leases this worker holds, by job id: not reported yet, or the report is
            not accepted yet.
        done: runs with a report to send.
        stuck: abandoned runs occupied every slot when `check_stuck` last looked.

    Args:
        worker_id: the worker's id.
        slots: how many runs may be active at once.
        cleanup_seconds: how long a run that was asked to stop may take to end.
        abandon: concludes and reports a run that does not end.
        wake: called when there is something to report or a slot to fill.
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
        self._conclude = abandon
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    @property
    def busy(self) -> bool:
        """Whether the end of some attempt is not stored yet."""
        return bool(self.held or self.done)

    def check_stuck(self) -> None:
        """Set `stuck`; log and notify once when abandoned runs occupy every slot."""
        running, slots, before = self.running, self._slots, self.stuck
        self.stuck = len(running) >= slots and all(run.abandoned for run in running)
        if self.stuck and not before:
            _log.error(
                "%s: all %d slots are occupied by handlers that were asked to stop and do not end; "
                "no job starts until one ends. Restart the worker, and declare handlers that may "
                'hang with isolation="process"', self._worker_id, slots,
            )  # fmt: skip
            self._notify(WorkerStuck(self._worker_id, slots))

    def add(self, run: Run) -> None:
        """Track a run from its claim on."""
        job_id = run.claim.lease.job_id
        before = self.held.get(job_id)
        if before is not None:
            # This worker lost the job's lease and has now claimed the job again.
            self.lose(before)
        self.running.add(run)
        self.held[job_id] = run
        if run.ends_at is not None and run.ends_at < self._timer_at:
            self._set_timer(run.ends_at)

    def find(self, context: JobContext) -> Run | None:
        """Return the run of a context while its progress may still be stored."""
        run = self.held.get(context.job_id)
        if run is None or run.context is not context or run.abandoned or run not in self.running:
            return None
        return run

    def ended(self, run: Run) -> None:
        """Free the slot of a run whose handler has ended."""
        self.running.discard(run)
        if not run.abandoned:
            self._settle(run)
        self._wake()

    def take_done(self) -> Sequence[Run]:
        """Remove and return runs to report, in the order in which they ended.

        These are all of `done`, or as many as one tick can carry.
        """
        done, size = self.done, 0
        done.sort(key=_ended_at)
        for place, run in enumerate(done):
            size += _size(run)
            if size > TICK_CHARACTERS and place:
                self.done = done[place:]
                return done[:place]
        self.done = []
        return done

    def unreported(self, runs: Sequence[Run]) -> None:
        """Put runs back into `done` whose reports could not be stored."""
        self.done[:0] = runs

    def reported(self, runs: Sequence[Run]) -> None:
        """Forget the leases of `runs`: the store has their reports."""
        held = self.held
        for run in runs:
            job_id = run.claim.lease.job_id
            if held.get(job_id) is run:
                del held[job_id]

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    # -- stopping runs -------------------------------------------------------------------------

    def stop(self, run: Run, reason: CancelReason) -> None:
        """Ask a run to stop, with time to clean up. The first reason stays."""
        if run.stop_reason is not None or run not in self.running:
            return
        run.stop_reason = reason
        run.context.request_cancel(reason)
        run.ends_at = self._clock.monotonic() + self._cleanup_seconds
        if run.ends_at < self._timer_at:
            self._set_timer(run.ends_at)
        if run.call is not None:
            run.call.request_stop(reason)
        elif run.in_loop and run.task is not None and not run.committing:
            run.task.cancel()

    def cancel(self, job_id: str) -> None:
        """Ask the run of a cancelled job to stop, if this worker holds its lease."""
        run = self.held.get(job_id)
        if run is not None:
            self.stop(run, CancelReason.REQUESTED)

    def stop_all(self, reason: CancelReason) -> None:
        """Ask all runs to stop."""
        for run in tuple(self.running):
            self.stop(run, reason)

    def abandon(self, run: Run) -> None:
        """Report a run that did not stop in time; its later answer is dropped."""
        if run.abandoned or run not in self.running:
            return
        self._conclude(run)
        self._settle(run)
        self._wake()
        if run.stop_reason is not CancelReason.SHUTDOWN:
            _log.warning("%r does not stop; its slot stays occupied until it ends", run)
        self._notify(AttemptAbandoned(run.kind.name, run.claim.job_id, run.claim.attempt))

    def abandon_all(self) -> None:
        """Abandon all runs."""
        for run in tuple(self.running):
            self.abandon(run)

    def apply(self, changes: LeaseChanges) -> None:
        """Act on what a heartbeat found out."""
        for run in changes.lost:
            self.lose(run, certain=True)
        for run in changes.doubtful:
            self.lose(run, certain=False)
        for run in changes.cancelled:
            self.stop(run, CancelReason.REQUESTED)

    def lose(self, run: Run, *, certain: bool = True) -> None:
        """Stop a run whose lease is lost, or, if not `certain`, may be lost."""
        lease = run.claim.lease
        if self.held.get(lease.job_id) is not run or (run.stop_reason is not None and not certain):
            return
        if run.report is not None or run.committing:
            # Its own report may have ended the lease. If not, the store refuses that report.
            return
        if certain:
            run.lost = True
            self._release(run)
        _log.warning("%r lost its lease%s", run, "" if certain else ", probably")
        self._notify(LeaseLost(run.kind.name, lease.job_id, lease.token, certain))
        self.stop(run, CancelReason.LEASE_LOST)

    # -- time limits ---------------------------------------------------------------------------

    def _set_timer(self, at: float) -> None:
        # One timer for all runs: one per run would cost as much as the rest of a short job.
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        seconds = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        """Stop or abandon the runs whose time is up, and set the timer for the next one."""
        self._timer, self._timer_at = None, float("inf")
        now = self._clock.monotonic()
        for run in tuple(self.running):
            if run.ends_at is None or run.ends_at > now:
                continue
            if run.waits and not run.by_deadline and run.stop_reason is None:
                # Its time begins when its handler starts.
                run.count_from(now)
            elif run.stop_reason is None:
                self.stop(run, CancelReason.TIMEOUT)
            else:
                self.abandon(run)
        soonest = min((run.ends_at for run in self.running if run.ends_at), default=None)
        if soonest is not None and soonest < self._timer_at:
            self._set_timer(soonest)

    def _settle(self, run: Run) -> None:
        if run.report is not None:
            self.done.append(run)
        else:
            self._release(run)

    def _release(self, run: Run) -> None:
        job_id = run.claim.lease.job_id
        if self.held.get(job_id) is run:
            del self.held[job_id]

    def _notify(self, event: Event) -> None:
        if self._listeners:
            notify(self._listeners, event)


def _size(run: Run) -> int:
    report = run.report
    if report is None or not isinstance(report.outcome, Completed):
        return 0
    return len(report.outcome.result or "") + sum([len(job.arguments) for job in report.jobs])


def _ended_at(run: Run) -> float:
    assert run.report is not None
    return run.started_at + (run.report.duration or 0.0)
