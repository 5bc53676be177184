"""How the jobs of one claim are shared out among the lanes that have ready jobs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

LaneT = TypeVar("LaneT")


def share_out(lanes: Sequence[LaneT], limit: int, take: Callable[[LaneT, int], int]) -> None:
    """Take up to `limit` jobs: an equal share from every lane, and the rest from who has more.

    Args:
        lanes: in the order in which they are served; the first ones get what cannot be divided.
        take: takes up to so many jobs from a lane, within all limits of its downstream and kinds,
            and returns how many it took. Fewer than asked for means that the lane has no more.
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
