"""Sliding windows that know, at any moment, how many calls they hold and how many failed.

Running totals are kept: what leaves the window is subtracted, nothing is ever summed anew.
The caller brings the lock.
"""

from typing import Protocol

from holdfast.resilience.policy import BreakerPolicy
from holdfast.resilience.recent import RecentCounts


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


class CountWindow:
    """The last `size` calls."""

    __slots__ = ("_calls", "_failures", "_next", "_outcomes")

    def __init__(self, size: int) -> None:
        self._outcomes = bytearray(size)
        self._next = 0
        self._calls = 0
        self._failures = 0

    def totals(self, now: float) -> tuple[int, int]:  # noqa: ARG002 - one protocol, two windows
        """Return how many calls the window holds, and how many of them failed."""
        return self._calls, self._failures

    def record(self, failed: bool, now: float) -> None:  # noqa: ARG002 - one protocol, two windows
        """Add the outcome of one call, letting go of the oldest where the window is full."""
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


class TimeWindow:
    """The calls of the last `seconds`."""

    __slots__ = ("_recent",)

    def __init__(self, seconds: float) -> None:
        self._recent = RecentCounts(seconds)

    def totals(self, now: float) -> tuple[int, int]:
        """Return how many calls the window holds at `now`, in seconds, and how many failed."""
        self._recent.forget_before(now)
        return self._recent.calls, self._recent.marked

    def record(self, failed: bool, now: float) -> None:
        """Add the outcome of one call at `now`, in seconds."""
        self._recent.add(now, calls=1, marked=failed)

    def clear(self) -> None:
        """Forget everything."""
        self._recent.clear()


def window_for(policy: BreakerPolicy) -> Window | None:
    """Make the window that `policy` asks for, or None where it has no rate rule."""
    if policy.failure_rate is None:
        return None
    if policy.window_seconds is not None:
        return TimeWindow(policy.window_seconds)
    return CountWindow(policy.window_calls)
