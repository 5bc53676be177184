"""A rate that is counted in the store, and so holds for all processes together."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.jobs.rate_port import RateStore
from holdfast.jobs.store_port import StoreClosed
from holdfast.resilience.policy import RateLimit


@dataclass(frozen=True, slots=True)
class SharedRate:
    """A rate of calls that every process with the same store keeps to: `Engine.shared_rate`.

    Give it to a `RetryPolicy` or to a client of `holdfast.providers` as `rate=`. Under it an
    attempt behaves as under a `RateLimit`: it waits for its place, at most `backoff.cap` seconds
    and within its deadline; otherwise the call stops with `RATE_LIMIT` or `DEADLINE` and says in
    `retry_at` when there is a place. If the store cannot be asked, the call stops with `RATE_LIMIT`
    and the store's error.

    A place that was taken and not used, because the caller was cancelled or killed, stays taken.

    Attributes:
        name: the same in all processes that share the rate.
        limit: how many calls may start. Each process keeps to its own; give all of them the same.
    """

    name: str
    limit: RateLimit
    _store: RateStore = field(repr=False)
    _opened_on: Callable[[], asyncio.AbstractEventLoop | None] = field(repr=False)

    async def reserve(self, longest: float) -> float:
        """Return the seconds to wait before the next call; where over `longest`, take no place.

        Raises:
            StoreUnavailable: the store does not answer.
            StoreClosed: the engine is not open.
        """
        loop = self._loop()
        if loop is asyncio.get_running_loop():
            return await self._store.reserve_start(self.name, self.limit, longest)
        return await asyncio.wrap_future(self._start_on(loop, longest))

    def reserve_sync(self, longest: float) -> float:
        """Do what `reserve` does, and block the calling thread meanwhile.

        Raises:
            RuntimeError: this is the thread of the engine's event loop, which would wait for
                itself.
        """
        loop = self._loop()
        if loop is _running_loop():
            raise RuntimeError(
                "a blocking call on the engine's event loop would wait for itself: await the "
                "asynchronous form, or call this one in another thread"
            )
        return self._start_on(loop, longest).result()

    def _start_on(
        self, loop: asyncio.AbstractEventLoop, longest: float
    ) -> concurrent.futures.Future[float]:
        work = self._reserve_until_closed(longest)
        try:
            return asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:
            work.close()
            raise StoreClosed("the engine was closed") from None

    async def _reserve_until_closed(self, longest: float) -> float:
        try:
            return await self._store.reserve_start(self.name, self.limit, longest)
        except asyncio.CancelledError:
            # Not the caller's own cancellation: a closing engine cancels what runs on its loop.
            raise StoreClosed("the engine was closed during this call") from None

    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = self._opened_on()
        if loop is None:
            raise StoreClosed("open the engine before calls under its shared rates")
        return loop


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
