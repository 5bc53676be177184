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

    def add(self, run: Run) -> None:
        """Let a run wait for its start."""
        self._runs.append(run)

    def start(self, most: int = _AT_ONCE, *, stopping: bool = False) -> None:
        """Start at most `most` runs now.

        Where the worker is `stopping`, they are released unstarted: they were claimed by a tick
        that was in flight when the worker was asked to stop.
        """
        runs, execute, now = self._runs, self._execute, self._clock.monotonic()
        loop, started = asyncio.get_running_loop(), min(len(runs), most)
        for _ in range(started):
            run = runs.popleft()
            if stopping and run.stop_reason is None:
                run.stop_reason = CancelReason.SHUTDOWN
            run.begin(now)
            run.task = loop.create_task(execute(run), name=run.claim.kind)
        if started:  # after those have run once, look again for jobs to start or to report
            loop.call_soon(self._wake)
