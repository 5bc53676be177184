"""Claimed runs that wait for their start."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.clock import Clock
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.worker.run import Run

_AT_ONCE = 50
"""Runs started before other callbacks of the event loop get a turn."""
_LONGEST_WAIT = 0.25
"""Seconds after which a run that found no free slot is released: another worker may have one."""


class StartQueue:
    """Start runs in the order of their claims, a few in each turn of the event loop.

    Args:
        execute: takes a run to its end.
        wake: called after the started runs have run once.
    """

    def __init__(
        self,
        execute: Callable[[Run], Coroutine[Any, Any, None]],
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._execute = execute
        self._clock = clock
        self._wake = wake
        self._runs: deque[Run] = deque()

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the first run has waited too long; None if none waits."""
        if not self._runs:
            return None
        return max(0.0, self._runs[0].started_at + _LONGEST_WAIT - self._clock.monotonic())

    def add(self, run: Run) -> None:
        """Let a run wait for its start."""
        run.waits = True
        self._runs.append(run)

    def start(self, free: int) -> None:
        """Start runs in `free` slots, the first ones now."""
        if self._runs and free > 0:
            self._begin(min(len(self._runs), free, _AT_ONCE))

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
