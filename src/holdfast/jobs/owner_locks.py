"""Locks of owners within one process; other processes have locks of their own."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from holdfast.jobs.store_values import StoreBusy


class OwnerLocks:
    """One lock per owner, on one event loop; a lock that no one holds or waits for is forgotten.

    Args:
        seconds: how long a caller waits for its locks.
    """

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def hold(self, owners: Iterable[str]) -> AsyncIterator[None]:
        """Hold the locks of `owners`, first come, first served; a block takes no lock again.

        Raises:
            StoreBusy: other callers hold one of them for too long.
        """
        async with AsyncExitStack() as held:
            waits_for = ""
            try:
                async with asyncio.timeout(self._seconds):
                    # In one order, so that two callers cannot deadlock.
                    for waits_for in sorted(owners):
                        lock = self._locks.setdefault(waits_for, asyncio.Lock())
                        await held.enter_async_context(lock)
            except TimeoutError:
                raise StoreBusy(
                    f"owner {waits_for!r} is locked by other calls for more than "
                    f"{self._seconds:g} s"
                ) from None
            yield
