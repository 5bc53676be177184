"""The store's time, estimated between two readings."""

from holdfast.clock import Clock
from holdfast.jobs.store_port import Store

_TRUSTED_FOR = 60.0
"""Seconds for which one reading of the store's clock is used."""


class StoreTime:
    """Estimate the store's time, which decides deadlines.

    This machine's time of day may be wrong, so the store is asked once a minute and the monotonic
    clock is used in between.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read: tuple[float, float] | None = None

    async def now(self) -> float:
        """Return epoch seconds."""
        passed = self._clock.monotonic()
        if self._read is None or passed - self._read[1] > _TRUSTED_FOR:
            self._read = (await self._store.ping(), self._clock.monotonic())
            return self._read[0]
        return self._read[0] + passed - self._read[1]
