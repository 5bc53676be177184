"""What happens at shutdown: finish or release the running attempts in time, and report them all."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.slots import Slots
from holdfast.jobs.worker.start_queue import StartQueue
from holdfast.jobs.worker.store_backoff import StoreBackoff
from holdfast.jobs.worker.ticks import Ticks
from holdfast.jobs.worker.wakeups import WakeEvent

LAST_REPORTS = 2.0
"""Seconds after the shutdown limit in which the last reports are tried again, and for one look for
lost claims."""


@dataclass(frozen=True, slots=True)
class DrainSteps:
    """What the worker does in between.

    Args:
        hurries: says whether the attempts are to be released at once.
        take_answers: processes the answers to ticks.
        report: sends a tick that only reports.
        cancel_ticks: gives up waiting for answers.
    """

    hurries: Callable[[], bool]
    take_answers: Callable[[], object]
    report: Callable[[], Awaitable[None]]
    cancel_ticks: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Drain:
    """Finish or release the attempts of one worker within `options.shutdown_seconds`."""

    slots: Slots
    claimed: StartQueue
    ticks: Ticks
    backoff: StoreBackoff
    options: WorkerOptions

    async def run(self, steps: DrainSteps, clock: Clock, wake: WakeEvent) -> None:
        """Return when all are reported, or the time for that is over."""
        limit, cleanup = self.options.shutdown_seconds, self.options.cleanup_seconds
        now = clock.monotonic()
        cut_at, end_at = now + max(limit - cleanup, limit / 2), now + limit
        await self.ticks.settle(LAST_REPORTS)
        steps.cancel_ticks()
        steps.take_answers()
        self.claimed.release(CancelReason.SHUTDOWN)
        runs, end_at, ended = self.slots, max(end_at, clock.monotonic()), False
        while runs.busy or self.ticks:
            now = clock.monotonic()
            if steps.hurries():
                cut_at = end_at = min(now, end_at)
            if now >= cut_at and runs.running:
                runs.stop_all(CancelReason.SHUTDOWN)
                # Handlers that stop at once need not be abandoned.
                await asyncio.wait({run.task for run in runs.running if run.task}, timeout=0.05)
            if now >= end_at and not ended:
                ended = True
                steps.cancel_ticks()  # what was not answered is sent again, for the last time
                runs.abandon_all()
            if now >= end_at + LAST_REPORTS:
                return
            if runs.done and not self.ticks:
                if self.backoff.failures:
                    await clock.sleep_async(0.1)
                await steps.report()
            elif ended and not self.ticks:
                return
            soonest = min(at for at in (cut_at, end_at, end_at + LAST_REPORTS) if at > now)
            await wake.wait_and_clear(soonest - now)
            steps.take_answers()
