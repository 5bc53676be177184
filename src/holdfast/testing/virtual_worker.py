"""A worker on a virtual clock.

Its heartbeat, which has a thread in production, runs on its event loop. Handlers that are not async
run on threads as always, and virtual time stands still meanwhile.
"""

import asyncio
import contextlib
import threading
from typing import Any

from holdfast.jobs.worker.heartbeat import Heartbeat
from holdfast.jobs.worker.isolation.kind_pools import KindPools
from holdfast.jobs.worker.run import Run
from holdfast.jobs.worker.worker import Worker
from holdfast.testing.inline_store import InlineStore
from holdfast.testing.virtual_loop import VirtualLoop


class ColdPools(KindPools):
    """Child processes that are started when they are needed."""

    def warm(self) -> None:
        """Do nothing: this worker may run for one moment of virtual time only."""


class LoopHeartbeat(Heartbeat):
    """A heartbeat on the worker's own event loop.

    It checks for requests to cancel only with each extension: the engine notifies its own workers.
    """

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._ended = threading.Event()
        self._task = asyncio.get_running_loop().create_task(self._beat_until_stopped())
        self._task.add_done_callback(lambda _: self._ended.set())

    async def _beat_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop = asyncio.Event()
        await self.check()
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.wait_seconds()):
                    await stop.wait()
                    break
            await self.check()
            await self.beat()
        await self._close()

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` real seconds for its end; called in another thread."""
        return self._task is None or self._ended.wait(timeout)


class VirtualWorker(Worker):
    """A worker that runs on the event loop of a virtual clock."""

    _heartbeat_type, _pools_type = LoopHeartbeat, ColdPools

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._time_passes = self._closing = False

    async def run(self, *, until_idle: bool = False) -> None:
        """Work as `Worker.run` does; time stands still while a handler is in a thread or child."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        with loop.held_while(self._is_outside):
            await super().run(until_idle=until_idle)

    def let_time_pass(self) -> None:
        """Let time pass from now on while handlers run, so that they can be abandoned."""
        self._time_passes = True

    def describe_running(self) -> list[str]:
        """Return one line about each attempt that is running."""
        return sorted(map(_described, self._slots.running))

    async def _close(self, maintenance: asyncio.Task[None] | None) -> None:
        self._closing = True  # child processes end in real time
        await super()._close(maintenance)

    def _is_outside(self) -> bool:
        if self._time_passes:
            return False
        return self._closing or any(map(self._runs_outside, self._slots.running))

    def _runs_outside(self, run: Run) -> bool:
        """Whether a handler runs in a thread or child, and does not wait there for the lock.

        Who holds the lock may wait for the time to pass.
        """
        assert isinstance(self._store, InlineStore)
        return run.call is not None and run.claim.job_id not in self._store.waiting_threads


def _described(run: Run) -> str:
    claim = run.claim
    where = "" if run.in_loop else ", not async"
    return f"{claim.kind} (job {claim.job_id}, attempt {claim.attempt}{where})"
