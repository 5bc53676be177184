"""How one claim divides its jobs among the lanes that have ready jobs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

LaneT = TypeVar("LaneT")


def share_out(lanes: Sequence[LaneT], limit: int, take: Callable[[LaneT, int], int]) -> None:
    """Take up to `limit` jobs: an equal share from every lane, the rest from lanes with more jobs.

    Args:
        lanes: in the order in which they are served; the remainder goes to the first ones.
        take: called with a lane and a number; takes at most that many jobs, within all limits of
            the downstream and the kinds, and returns how many. Fewer means that none are left.
    """
    remaining = limit
    while lanes and remaining > 0:
        share = max(1, remaining // len(lanes))
        with_more = []
        for lane in lanes:
            wanted = min(share, remaining)
            taken = take(lane, wanted) if wanted else 0
            remaining -= taken
            if taken == wanted:
                with_more.append(lane)
        lanes = with_more
