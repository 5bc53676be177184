"""Claimed runs that wait for their start, and how many more may be claimed.

A worker that dies costs every job that it has claimed an attempt, those that wait here included.
A suspect is a job that has lost a worker before: it may be what kills them. So suspects start one
by one, and no other job waits meanwhile:

1. Of the suspects that come, one is kept. The others are released at once.
2. It starts when nothing else waits here, all claims are answered, and all runs that have ended are
   reported. Until then nothing is claimed.
3. When it has ended, or has run for a moment, one job is claimed: those that have lost a worker
   together come together. If it is a suspect it starts in the same way. If not, there are no more
   for now, and claims are as large as before; but nothing is claimed ahead while a suspect runs.
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
_MOMENT = 0.05
"""Seconds that a suspect runs before the next claim: most jobs that kill a worker do so at once."""


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
        self._running_suspects: set[Run] = set()
        self._latest: Run | None = None  # the suspect that started last
        self._expects_suspects = False  # the last claim has brought some

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
        if (moment := self._moment_left) > 0:
            waits.append(moment)
        return min(waits, default=None)

    @property
    def _seconds_left(self) -> float:
        """Seconds until the first run has waited too long."""
        first = self._runs[0] if self._runs else self._suspect
        assert first is not None
        return first.started_at + _LONGEST_WAIT - self._clock.monotonic()

    @property
    def _moment_left(self) -> float:
        """Seconds until the suspect that started last has run for a moment; 0 if it has ended."""
        if self._latest not in self._running_suspects:
            return 0.0
        return max(0.0, self._latest.started_at + _MOMENT - self._clock.monotonic())

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
        if self._suspect is not None or self._moment_left > 0:
            return 0
        free, batch = self._options.concurrency - self.occupied, self._options.batch
        if self._expects_suspects:
            most = min(free, 1)
        elif self._running_suspects:
            most = free
        else:
            most = max(free, min(free + self._ahead.jobs(free), batch))
        return min(most - len(self._runs) - asked, batch)

    def note(self, run: Run) -> None:
        """Learn from a run that has ended how long runs take."""
        self._running_suspects.discard(run)
        if run.report is not None and run.stop_reason is None:
            self._ahead.note(run.report.duration or 0.0)

    def add(self, runs: Sequence[Run]) -> None:
        """Let the runs of one claim wait for their start; release all suspects but one."""
        for run in runs:
            self._slots.add(run)
            run.waits = True
        suspects = [run for run in runs if run.claim.lost_worker]
        self._expects_suspects = bool(suspects)
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
            self._latest, self._suspect = self._suspect, None
            self._running_suspects.add(self._latest)
            self._begin([self._latest])
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
