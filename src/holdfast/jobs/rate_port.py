"""What a store does for rates that all processes share: it gives out the starts of calls.

The starts of one rate are numbered, and never go back in time. So each of its limits is one look
at an earlier start: with 100 a minute, a start comes no sooner than a minute after the hundredth
one before it. Nothing is held: a process that dies loses the places that it has taken, no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.resilience.policy import RateLimit


@dataclass(frozen=True, slots=True)
class GivenStarts:
    """The starts of one rate that were given out so far.

    Args:
        count: how many there were.
        last: when the last one is, in epoch seconds; None before the first.
        earlier: when those that `lookback` asks for are, by their number from 1.
    """

    count: int
    last: float | None
    earlier: Mapping[int, float]


def kept_starts(limit: RateLimit) -> int:
    """Return how many of the last starts `limit` looks back at."""
    return max(count for _, count in limit.periods)


def lookback(limit: RateLimit, given: int) -> list[int]:
    """Return the numbers of the starts that decide about the next one, after `given` starts."""
    return [given + 1 - count for _, count in limit.periods if given + 1 - count > 0]


def next_start(limit: RateLimit, given: GivenStarts, now: float) -> float:
    """Return the earliest moment from `now` on, in epoch seconds, at which a call may start.

    A clock that is set back cannot move it back: callers then wait longer, and the limit holds.
    """
    start = now if given.last is None else max(now, given.last + limit.gap)
    for period, count in limit.periods:
        earlier = given.earlier.get(given.count + 1 - count)
        if earlier is not None:
            start = max(start, earlier + period)
    return start


class RateStore(Protocol):
    """Give out the starts of calls under rates that all processes share."""

    async def reserve_start(
        self, name: str, limit: RateLimit, longest: float, *, now: float | None = None
    ) -> float:
        """Return the seconds to wait before the next call under the rate `name`.

        Its place is taken, unless the wait is over `longest` seconds. No second, minute or day ever
        holds more starts than `limit`, whichever processes take them.
        """
        ...
