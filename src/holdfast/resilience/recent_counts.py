"""Two running totals over the last seconds. The caller brings the lock."""

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

Entry: TypeAlias = tuple[int, int, int]
"""One bucket: its number (the time divided by its width), its calls, the marked ones of them."""

_BUCKETS = 20
"""Parts that the time is cut into: what leaves, leaves in steps of a twentieth."""


class RecentCounts:
    """Count calls, and some of them apart (`marked`), over the last `seconds`.

    Totals are kept: an entry that leaves is subtracted, and nothing is summed again. `entries` are
    initial values, as `entries()` of another object returns them.
    """

    __slots__ = ("_buckets", "_width", "calls", "marked")

    def __init__(self, seconds: float, entries: Iterable[Entry] = ()) -> None:
        self._width = seconds / _BUCKETS
        self._buckets = deque(entries)
        self.calls = sum(calls for _, calls, _ in self._buckets)
        self.marked = sum(marked for _, _, marked in self._buckets)

    def clear(self) -> None:
        """Forget everything."""
        self._buckets.clear()
        self.calls = self.marked = 0

    def add(self, now: float, *, calls: int = 0, marked: int = 0) -> None:
        """Add to both totals at `now`, in seconds."""
        self.forget_before(now)
        bucket, buckets = int(now // self._width), self._buckets
        if buckets and buckets[-1][0] >= bucket:
            last, old_calls, old_marked = buckets.pop()
            buckets.append((last, old_calls + calls, old_marked + marked))
        else:
            buckets.append((bucket, calls, marked))
        self.calls += calls
        self.marked += marked

    def forget_before(self, now: float) -> None:
        """Subtract every bucket that time has passed, however long nothing was added."""
        oldest, buckets = int(now // self._width) - _BUCKETS, self._buckets
        while buckets and buckets[0][0] <= oldest:
            _, calls, marked = buckets.popleft()
            self.calls -= calls
            self.marked -= marked

    def entries(self) -> tuple[Entry, ...]:
        """Return the buckets, oldest first, as a store keeps them."""
        return tuple(self._buckets)
