"""Wake a worker up when there may be work: at a hint, at a known time, or at the next poll."""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random

from holdfast.clock import Clock
from holdfast.jobs.store_port import Store, StoreUnavailable, TickResult

_SHORTEST_WAIT = 0.005
"""Seconds between two polls when the store announced work that was then taken by others."""


class WakeEvent(asyncio.Event):
    """An event that is cleared by the one task that waits for it."""

    async def wait_and_clear(self, seconds: float | None = None) -> None:
        """Wait until it is set, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait()
                self.clear()


class Wakeups:
    """Call `on_work` once there may be work.

    Args:
        poll_interval: seconds after which the store is polled without any hint.
        on_work: called on the event loop.
    """

    def __init__(
        self,
        store: Store,
        poll_interval: float,
        *,
        clock: Clock,
        rng: Random,
        on_work: Callable[[], None],
    ) -> None:
        self._store = store
        self._poll_interval = poll_interval
        self._clock = clock
        self._rng = rng
        self._on_work = on_work
        self._task: asyncio.Task[None] | None = None
        self._until = 0.0

    def wait(self, result: TickResult) -> None:
        """Wait from now on; a tick's `wake_at` shortens the wait."""
        seconds = self._poll_interval * (0.9 + 0.2 * self._rng.random())
        if result.wake_at is not None:
            seconds = min(seconds, max(_SHORTEST_WAIT, result.wake_at - result.now))
        until = self._clock.monotonic() + seconds
        if self._task is not None and not self._task.done():
            if self._until <= until:
                return
            self._task.cancel()
        self._until = until
        self._task = asyncio.get_running_loop().create_task(self._wait(result.mark, seconds))

    async def close(self) -> None:
        """Stop waiting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _wait(self, mark: int, seconds: float) -> None:
        try:
            await self._store.wait_for_work(mark, seconds)
        except StoreUnavailable:
            # The next tick will notice; this pause keeps ticks from following at once.
            await self._clock.sleep_async(min(seconds, 1.0))
        self._task = None
        self._on_work()
