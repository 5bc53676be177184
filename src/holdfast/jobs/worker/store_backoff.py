"""How long a worker waits before it calls a store again that did not answer."""

from random import Random

from holdfast.clock import Clock
from holdfast.jobs.store_outage import Outage
from holdfast.resilience.backoff import Exponential

_PART = "tick"
_BACKOFF = Exponential(base=0.1, multiplier=2, cap=5.0, jitter=0.2)


class StoreBackoff:
    """Wait for an unreachable store, longer each time; `failures` are those in a row."""

    def __init__(self, outage: Outage, clock: Clock, rng: Random) -> None:
        self.failures = 0
        self._outage = outage
        self._clock = clock
        self._rng = rng
        self._until = 0.0

    @property
    def rest(self) -> float:
        """Seconds still to wait; zero or less: none."""
        return self._until - self._clock.monotonic()

    def failed(self, error: BaseException) -> None:
        """Note a call that failed."""
        self.failures += 1
        self._until = self._clock.monotonic() + _BACKOFF.delay(self.failures, self._rng)
        self._outage.lost(_PART, error)

    def succeeded(self) -> None:
        """Note a call that was answered."""
        self.failures = 0
        self._outage.back(_PART)
