"""How one claim divides its jobs among lanes, and those of a lane among their owners.

Which jobs may be taken at all is decided before that: `holdfast.jobs.downstreams.record` says
whether a downstream holds its jobs, `holdfast.jobs.downstreams.claim_permits` how many may start.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

T = TypeVar("T")

TURN = 10
"""Jobs that an owner may start in a row while another owner waits in the same lane."""


def share_out(lanes: Sequence[T], limit: int, take: Callable[[T, int], int]) -> None:
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


class Turn(NamedTuple):
    """The owner that a lane served last ("" for jobs without one), and how many jobs in a row."""

    owner: str
    used: int


def in_turn(owners: Iterable[str], turn: Turn | None) -> list[str]:
    """Return `owners` in the order in which they are served after `turn`.

    The owner served last goes on until it has had its turn; then the next one follows, in the order
    of their names, and after the last one the first.
    """
    if turn is None:
        return sorted(owners)
    last, is_over = turn.owner, turn.used >= TURN
    return sorted(owners, key=lambda owner: (owner < last or (is_over and owner == last), owner))


def take_turns(
    owners: Iterable[str], turn: Turn | None, limit: int, take: Callable[[str, int], int]
) -> None:
    """Take up to `limit` jobs of one lane and priority from its `owners`, each in its turn.

    A turn is `TURN` jobs, or an equal share of `limit` where that is more. An owner that arrives
    while another one floods the lane is therefore served next, with `TURN` jobs in a row.

    Args:
        owners: in the order of `in_turn`; only as many are asked for as are needed.
        take: as in `share_out`.
    """
    rest = iter(owners)
    # With so many owners an equal share is less than a turn, so the others need not be counted.
    first = list(islice(rest, limit // TURN + 1))
    number, waiting = len(first), chain(first, rest)
    remaining, used = limit, 0
    if turn is not None and first and first[0] == turn.owner and turn.used < TURN:
        used = turn.used
    while number > 0 and remaining > 0:
        share = max(TURN, remaining // number)
        with_more = []
        for owner in waiting:
            wanted = min(share - used, remaining)
            used = 0
            taken = take(owner, wanted)
            remaining -= taken
            if remaining == 0:
                return
            if taken == wanted:
                with_more.append(owner)
        number, waiting = len(with_more), chain(with_more)


def turn_after(turn: Turn | None, taken: Mapping[str, int]) -> Turn:
    """Return the turn of a lane after a claim that took so many jobs of each owner from it."""
    last = in_turn(taken, turn)[-1]
    goes_on = turn is not None and len(taken) == 1 and last == turn.owner
    return Turn(last, taken[last] + (turn.used if turn is not None and goes_on else 0))
