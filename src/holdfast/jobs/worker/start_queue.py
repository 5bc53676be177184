"""Claimed runs that wait for their start, and how many more may be claimed.

A worker that dies costs every job that it has claimed an attempt, those that wait here included.
A suspect is a job that has lost a worker before: it may be what kills them. So suspects start one
by one, and no other job waits meanwhile:

1. Of the suspects that a claim brings one is kept; the others are released at once.
2. It starts when no other run waits here, no claim is in flight, and all ended runs are reported.
   Until then nothing is claimed.
3. After it has ended, or has run for 50 ms, a single job is claimed. Each further claim may bring
   twice as many, until one brings a suspect again. Nothing is claimed ahead while a suspect runs
   that started within the last seconds.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from holdfast.clock import Clock
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.worker.claim_ahead import ClaimAhead
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.run import Run
from holdfast.jobs.worker.slots import Slots

_AT_ONCE = 50
"""Runs started before other callbacks of the event loop get a turn."""
_LONGEST_WAIT = 0.25
"""Seconds after which a run that found no free slot is released: another worker may have one."""
_GRACE = 0.05
"""Seconds that a suspect runs before the next claim: most jobs that kill a worker do so at once."""
_WATCHED = 5.0
"""Seconds that a suspect runs before jobs are claimed ahead beside it."""


class StartQueue:
    """Start runs in the order of their claims, a few in each turn of the event loop.

    Args:
        slots: the runs of the worker, those that wait here included.
        kinds: the kinds that the worker runs.
        execute: takes a run to its end.
        wake: called after the started runs have run once.
    """

    def __init__(
        self,
        slots: Slots,
        options: WorkerOptions,
        kinds: Iterable[JobKind],
        *,
        execute: Callable[[Run], Coroutine[Any, Any, None]],
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._slots = slots
        self._options = options
        self._ahead = ClaimAhead(kinds)
        self._execute = execute
        self._clock = clock
        self._wake = wake
        self._runs: deque[Run] = deque()
        self._suspect: Run | None = None  # the one that waits
        self._watched: set[Run] = set()  # the suspects that run, for their first seconds
        self._claim_limit: int | None = None  # since a claim brought suspects

    def __len__(self) -> int:
        return len(self._runs) + (self._suspect is not None)

    @property
    def occupied(self) -> int:
        """How many slots have a run whose handler was started and has not ended."""
        return len(self._slots.running) - len(self)

    def next_look(self, rest: float) -> float | None:
        """Return in how many seconds to call `start` again; None if nothing is to be done.

        `rest` is when the store may be called again, which is to be done as well; 0 for at once.
        """
        waits = [rest] if rest > 0 else []
        if self:
            waits.append(max(0.001, self._seconds_left))
        if (grace := self._grace_left) > 0:
            waits.append(grace)
        return min(waits, default=None)

    @property
    def _seconds_left(self) -> float:
        """Seconds until the first run has waited too long."""
        first = self._runs[0] if self._runs else self._suspect
        assert first is not None
        return first.started_at + _LONGEST_WAIT - self._clock.monotonic()

    @property
    def _grace_left(self) -> float:
        """Seconds until the suspect that started last has run long enough; 0 if it has ended."""
        if not self._watched:
            return 0.0
        latest = max(run.started_at for run in self._watched)
        return max(0.0, latest + _GRACE - self._clock.monotonic())

    @property
    def waits_for_reports(self) -> bool:
        """Whether a suspect waits until the ends of other runs are stored."""
        if self._suspect is None or self._runs:
            return False
        running = self._slots.running
        return any(
            run not in running or run.stop_reason is CancelReason.NOT_STARTED
            for run in self._slots.held.values()
        )

    def claimable(self, asked: int) -> int:
        """Return how many more jobs may be claimed while ticks in flight ask for `asked`."""
        if self._suspect is not None or self._grace_left > 0:
            return 0
        free, batch = self._options.concurrency - self.occupied, self._options.batch
        most = free
        if not self._watches():
            most = max(free, min(free + self._ahead.jobs(free), batch))
        limit = batch if self._claim_limit is None else self._claim_limit - asked
        return min(most - len(self._runs) - asked, batch, limit)

    def _watches(self) -> bool:
        """Whether a suspect runs that started within the last seconds."""
        if self._watched:
            since = self._clock.monotonic() - _WATCHED
            self._watched = {run for run in self._watched if run.started_at > since}
        return bool(self._watched)

    def note(self, run: Run) -> None:
        """Learn from a run that has ended how long runs take."""
        self._watched.discard(run)
        if run.report is not None and run.stop_reason is None:
            self._ahead.note(run.report.duration or 0.0)

    def add(self, runs: Sequence[Run]) -> None:
        """Let the runs of one claim wait for their start; release all suspects but one."""
        for run in runs:
            self._slots.add(run)
            run.waits = True
        suspects = [run for run in runs if run.claim.lost_worker]
        if suspects:
            self._claim_limit = 1
        elif self._claim_limit is not None:
            more = 2 * self._claim_limit
            self._claim_limit = more if more < self._options.batch else None
        if suspects and self._suspect is None:
            self._suspect = suspects.pop(0)
        self._release(suspects, CancelReason.NOT_STARTED)
        self._runs.extend(run for run in runs if not run.claim.lost_worker)

    def start(self, *, settled: bool, stopping: bool = False) -> None:
        """Start runs in the free slots, the first ones now; release them if none becomes free.

        A suspect starts only if the worker is `settled`: neither a tick in flight nor a lost answer
        may have claimed jobs. Where it is `stopping` none is started.
        """
        if not self or stopping:
            return
        free = self._options.concurrency - self.occupied
        if free > 0 and self._runs:
            some = min(len(self._runs), free, _AT_ONCE)
            self._begin([self._runs.popleft() for _ in range(some)])
        elif free > 0 and self._suspect and settled and not self.waits_for_reports:
            suspect, self._suspect = self._suspect, None
            self._watched.add(suspect)
            self._begin([suspect])
        elif self._seconds_left <= 0:
            self.release(CancelReason.NOT_STARTED)

    def release(self, reason: CancelReason) -> None:
        """Release all runs unstarted: their handlers are not called, and no attempt is used up."""
        runs = [*self._runs, self._suspect] if self._suspect else [*self._runs]
        self._runs.clear()
        self._suspect = None
        self._release(runs, reason)

    def _release(self, runs: Sequence[Run], reason: CancelReason) -> None:
        for run in runs:
            if run.stop_reason is None:
                run.stop_reason = reason
        self._begin(runs)

    def _begin(self, runs: Sequence[Run]) -> None:
        execute, now = self._execute, self._clock.monotonic()
        loop = asyncio.get_running_loop()
        for run in runs:
            run.begin(now)
            run.task = loop.create_task(execute(run), name=run.claim.kind)
        if runs:  # after those have run once, look again for jobs to start or to report
            loop.call_soon(self._wake)
