"""Sliding windows that know, at any moment, how many calls they hold and how many failed.

The breaker in memory keeps one; the durable record of a downstream keeps its `entries()`.
Running totals are kept: a call that leaves the window is subtracted, and nothing is summed again.
The caller brings the lock.
"""

from collections.abc import Iterable
from typing import Protocol

from holdfast.resilience.policy import BreakerPolicy
from holdfast.resilience.recent_counts import Entry, RecentCounts


class Window(Protocol):
    """Counts the outcomes of the last calls."""

    def totals(self, now: float) -> tuple[int, int]:
        """Return how many calls the window holds at `now`, in seconds, and how many failed."""
        ...

    def record(self, failed: bool, now: float) -> None:
        """Add the outcome of one call at `now`, in seconds."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...

    def entries(self) -> tuple[Entry, ...]:
        """Return what it holds, oldest first: a number, calls, failures."""
        ...


class CountWindow:
    """The last `size` calls."""

    __slots__ = ("_calls", "_failures", "_next", "_outcomes")

    def __init__(self, size: int, entries: Iterable[Entry] = ()) -> None:
        self._outcomes = bytearray(size)
        self._next = 0
        self._calls = 0
        self._failures = 0
        for _, calls, failures in entries:
            for call in range(calls):
                self.record(call < failures, 0.0)

    def totals(self, now: float) -> tuple[int, int]:  # noqa: ARG002 - one protocol, two windows
        """Return how many calls the window holds, and how many of them failed."""
        return self._calls, self._failures

    def record(self, failed: bool, now: float) -> None:  # noqa: ARG002 - one protocol, two windows
        """Add the outcome of one call; the oldest leaves where the window is full."""
        outcomes, place = self._outcomes, self._next
        size = len(outcomes)
        if self._calls == size:
            self._failures -= outcomes[place]
        else:
            self._calls += 1
        outcomes[place] = failed
        self._failures += failed
        self._next = (place + 1) % size

    def clear(self) -> None:
        """Forget everything."""
        self._calls = 0
        self._failures = 0
        self._next = 0

    def entries(self) -> tuple[Entry, ...]:
        """Return one entry for each call, oldest first."""
        first, size = self._next - self._calls, len(self._outcomes)
        return tuple((0, 1, self._outcomes[(first + n) % size]) for n in range(self._calls))


class TimeWindow(RecentCounts):
    """The calls of the last `seconds`; the marked ones are those that failed."""

    __slots__ = ()

    def totals(self, now: float) -> tuple[int, int]:
        """Return how many calls the window holds at `now`, in seconds, and how many failed."""
        self.forget_before(now)
        return self.calls, self.marked

    def record(self, failed: bool, now: float) -> None:
        """Add the outcome of one call at `now`, in seconds."""
        self.add(now, calls=1, marked=failed)


def window_for(policy: BreakerPolicy, entries: Iterable[Entry] = ()) -> Window | None:
    """Make the window that `policy` asks for, holding `entries`; None where it has no rate rule."""
    if policy.failure_rate is None:
        return None
    if policy.window_seconds is not None:
        return TimeWindow(policy.window_seconds, entries)
    return CountWindow(policy.window_calls, entries)
