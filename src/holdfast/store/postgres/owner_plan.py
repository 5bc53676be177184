"""Which ready jobs a claim takes where owners share the places of a downstream: one each in turn.

The rule is in `holdfast.jobs.owner_places`. The downstream is locked, so no other claim takes jobs
of these lanes meanwhile.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.jobs.claim_sharing import Turn
from holdfast.jobs.owner_places import OwnerPlaces, OwnerSearch
from holdfast.store.postgres.connection import Connection, rows

_ABOVE_ALL = 2**15
"""Higher than any priority."""


class Subqueue(NamedTuple):
    """How many jobs to take of one lane, priority and owner; of the lane where these are None."""

    lane: int
    priority: int | None
    owner: str | None
    quota: int


async def plan_by_owner(
    connection: Connection,
    lanes: Sequence[int],
    wanted: int,
    turn: Turn | None,
    places: OwnerPlaces,
) -> list[Subqueue]:
    """Choose up to `wanted` jobs of the `lanes` of one queue and downstream."""
    chosen: dict[str, Subqueue] = {}
    level = await _level_below(connection, lanes, _ABOVE_ALL)
    while level is not None and len(chosen) < wanted:
        search = places.choose(wanted - len(chosen), turn, chosen)
        for owner in await _owners(connection, lanes, level, search):
            place = {"lanes": lanes, "priority": level, "owner": owner}
            for (lane,) in await rows(connection, "claim_lane_of_owner", **place):
                chosen[owner] = Subqueue(lane, level, owner, 1)
        level = await _level_below(connection, lanes, level)
    return list(chosen.values())


async def _level_below(connection: Connection, lanes: Sequence[int], level: int) -> int | None:
    """Return the highest priority of ready jobs that is below `level`."""
    found = await rows(connection, "claim_level_below", lanes=lanes, level=level)
    return found[0][0] if found else None


async def _owners(
    connection: Connection, lanes: Sequence[int], level: int, search: OwnerSearch
) -> list[str]:
    try:
        start = next(search)
        while True:
            found = await rows(
                connection, "claim_next_owner", lanes=lanes, priority=level, start=start
            )
            start = search.send(found[0][0])
    except StopIteration as ended:
        owners: list[str] = ended.value
        return owners
