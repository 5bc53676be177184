"""Two running totals over the last seconds. The caller brings the lock."""

_BUCKETS = 20
"""Parts that the time is cut into: what leaves, leaves in steps of a twentieth."""


class RecentCounts:
    """Count calls, and some of them apart (`marked`), over the last `seconds`.

    Totals are kept: what leaves is subtracted, nothing is ever summed anew.
    """

    __slots__ = ("_calls", "_current", "_marked", "_width", "calls", "marked")

    def __init__(self, seconds: float) -> None:
        self._width = seconds / _BUCKETS
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._calls = [0] * _BUCKETS
        self._marked = [0] * _BUCKETS
        self._current = 0
        self.calls = 0
        self.marked = 0

    def add(self, now: float, *, calls: int = 0, marked: int = 0) -> None:
        """Add to both totals at `now`, in seconds."""
        self.forget_before(now)
        place = self._current % _BUCKETS
        self._calls[place] += calls
        self._marked[place] += marked
        self.calls += calls
        self.marked += marked

    def forget_before(self, now: float) -> None:
        """Subtract every bucket that time has passed, however long nothing was added."""
        bucket = int(now // self._width)
        for step in range(1, min(bucket - self._current, _BUCKETS) + 1):
            place = (self._current + step) % _BUCKETS
            self.calls -= self._calls[place]
            self.marked -= self._marked[place]
            self._calls[place] = self._marked[place] = 0
        self._current = max(self._current, bucket)
