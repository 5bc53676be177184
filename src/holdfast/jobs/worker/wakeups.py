"""Wait for work on behalf of a worker: for a hint, a known moment, or the next poll."""

import asyncio
from collections.abc import Callable
from random import Random

from holdfast.clock import Clock
from holdfast.jobs.store_port import Store, StoreUnavailable, TickResult

_SHORTEST_WAIT = 0.005
"""Seconds between two looks at the store where it promised work that then was not there."""


class Waiter:
    """Tell a worker once there may be work for it.

    Args:
        poll_interval: seconds after which there is always worth a look.
        on_work: told, on the event loop.
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
        """Wait from now on, at the longest until what a tick said of the time to come."""
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
        """Wait no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _wait(self, mark: int, seconds: float) -> None:
        try:
            await self._store.wait_for_work(mark, seconds)
        except StoreUnavailable:
            # The next tick will find out; it must not come at once, and again and again.
            await self._clock.sleep_async(min(seconds, 1.0))
        self._task = None
        self._on_work()
