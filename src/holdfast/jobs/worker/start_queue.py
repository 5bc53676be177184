"""Claimed runs that wait for their start, and how many more may be claimed."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
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

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def occupied(self) -> int:
        """How many slots have a run whose handler was started and has not ended."""
        return len(self._slots.running) - len(self._runs)

    def next_look(self, rest: float) -> float | None:
        """Return in how many seconds to call `start` again; None if nothing is to be done.

        `rest` is when the store may be called again, which is to be done as well; 0 for at once.
        """
        waits = [rest] if rest > 0 else []
        if self._runs:
            waits.append(max(0.001, self._seconds_left))
        return min(waits, default=None)

    @property
    def _seconds_left(self) -> float:
        """Seconds until the first run has waited too long."""
        return self._runs[0].started_at + _LONGEST_WAIT - self._clock.monotonic()

    def claimable(self, asked: int) -> int:
        """Return how many more jobs may be claimed while ticks in flight ask for `asked`."""
        free, batch = self._options.concurrency - self.occupied, self._options.batch
        most = max(free, min(free + self._ahead.jobs(free), batch))
        return min(most - len(self._runs) - asked, batch)

    def note(self, run: Run) -> None:
        """Learn from a run that has ended how long runs take."""
        if run.report is not None and run.stop_reason is None:
            self._ahead.note(run.report.duration or 0.0)

    def add(self, run: Run) -> None:
        """Let a run wait for its start."""
        run.waits = True
        self._runs.append(run)

    def start(self, *, stopping: bool = False) -> None:
        """Start runs in the free slots, the first ones now; release them if none becomes free.

        Where the worker is `stopping` none is started.
        """
        if not self._runs or stopping:
            return
        free = self._options.concurrency - self.occupied
        if free > 0:
            self._begin(min(len(self._runs), free, _AT_ONCE))
        elif self._seconds_left <= 0:
            self.release(CancelReason.NOT_STARTED)

    def release(self, reason: CancelReason) -> None:
        """Release all runs unstarted: their handlers are not called, and no attempt is used up."""
        for run in self._runs:
            if run.stop_reason is None:
                run.stop_reason = reason
        self._begin(len(self._runs))

    def _begin(self, count: int) -> None:
        runs, execute, now = self._runs, self._execute, self._clock.monotonic()
        loop = asyncio.get_running_loop()
        for _ in range(count):
            run = runs.popleft()
            run.begin(now)
            run.task = loop.create_task(execute(run), name=run.claim.kind)
        if count:  # after those have run once, look again for jobs to start or to report
            loop.call_soon(self._wake)
