"""How many writes a session may make, and how many all sessions of one address."""

from collections import OrderedDict

from holdfast.clock import Clock
from holdfast.http.limit_keys import LimitKeys

_MOST_BUCKETS = 10_000


class Allowance:
    """A bucket of tokens for each of many keys; the least recently used keys are forgotten."""

    def __init__(self, at_once: int, per_second: float, clock: Clock) -> None:
        self._at_once = float(at_once)
        self._per_second = per_second
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock.monotonic()
        tokens, since = self._buckets.pop(key, (self._at_once, now))
        tokens = min(self._at_once, tokens + (now - since) * self._per_second)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._per_second
        self._buckets[key] = (tokens if wait else tokens - 1, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class WriteLimit:
    """Count the writes of each session and of each address.

    Args:
        at_once: writes that a session may make in a burst.
        per_second: how many a second after that.
        sessions_per_address: an address may make as many as so many sessions.
        clock: where time comes from.
    """

    def __init__(
        self, at_once: int, per_second: float, sessions_per_address: int, clock: Clock
    ) -> None:
        self._of_sessions = Allowance(at_once, per_second, clock)
        self._of_addresses = Allowance(
            at_once * sessions_per_address, per_second * sessions_per_address, clock
        )

    def take(self, keys: LimitKeys) -> float:
        """Count a write and return 0, or return the seconds until one is allowed."""
        wait = self._of_sessions.take(keys.own)
        if wait or keys.address is None:
            return wait
        return self._of_addresses.take(keys.address)
