"""Which ready jobs a claim takes where limits of owners decide.

The rules are in `holdfast.jobs.owner_places`, for owners who share the places of a downstream, and
in `holdfast.jobs.owner_limits`. What they count is locked, so no other claim changes it meanwhile.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.jobs.claim_sharing import Turn
from holdfast.jobs.owner_places import OwnerPlaces, OwnerSearch
from holdfast.store.postgres.connection import Connection, rows
from holdfast.store.postgres.owner_rooms import ClaimOwners

_ABOVE_ALL = 2**15
"""Higher than any priority."""


class Subqueue(NamedTuple):
    """How many jobs to take of one lane, priority and owner; of the lane where these are None."""

    lane: int
    priority: int | None
    owner: str | None
    quota: int


async def plan_with_room(
    connection: Connection, shares: Mapping[str, Any], limited: ClaimOwners
) -> list[Subqueue]:
    """Choose jobs within the limits of owners; `shares` are the parameters of `claim_plan`."""
    chosen: list[Subqueue] = []
    while not chosen:
        full = sorted(limited.full)
        found = await rows(connection, "claim_plan_with_room", **shares, full=full)
        if not found:
            break
        # Owners of whom none may start are left out of the next plan.
        await limited.look_up(row["owner"] for row in found)
        for row in found:
            quota = min(row["quota"], limited.rooms.room(row["owner"]))
            if quota > 0:
                limited.rooms.reserve(row["owner"], quota)
                chosen.append(Subqueue(row["lane"], row["priority"], row["owner"], quota))
    return chosen


async def plan_by_owner(
    connection: Connection,
    lanes: Sequence[int],
    wanted: int,
    turn: Turn | None,
    places: OwnerPlaces,
    limited: ClaimOwners | None,
) -> list[Subqueue]:
    """Choose up to `wanted` jobs of the `lanes` of one queue and downstream, one of each owner."""
    chosen: dict[str, Subqueue] = {}

    def is_skipped(owner: str) -> bool:
        return owner in chosen or (limited is not None and owner in limited.full)

    level = await _level_below(connection, lanes, _ABOVE_ALL)
    while level is not None and len(chosen) < wanted:
        search = places.choose(wanted - len(chosen), turn, is_skipped)
        owners = await _owners(connection, lanes, level, search)
        if limited is not None:
            await limited.look_up(owners)
            if not limited.full.isdisjoint(owners):
                places.release(owners)
                continue
        for owner in owners:
            place = {"lanes": lanes, "priority": level, "owner": owner}
            for (lane,) in await rows(connection, "claim_lane_of_owner", **place):
                chosen[owner] = Subqueue(lane, level, owner, 1)
                if limited is not None:
                    limited.rooms.reserve(owner, 1)
        level = await _level_below(connection, lanes, level)
    return list(chosen.values())


async def _level_below(connection: Connection, lanes: Sequence[int], level: int) -> int | None:
    """Return the highest priority of ready jobs that is below `level`."""
    ((priority,),) = await rows(connection, "claim_level_below", lanes=lanes, level=level)
    return None if priority is None else int(priority)


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
