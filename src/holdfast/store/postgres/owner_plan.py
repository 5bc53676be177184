"""Which ready jobs a claim takes where limits of owners decide.

The rules are in `holdfast.jobs.owner_places`, for owners who share the places of a downstream, and
in `holdfast.jobs.owner_limits`. What they count is locked, so no other claim changes it meanwhile.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from holdfast.jobs.claim_sharing import Turn
from holdfast.jobs.owner_places import AFTER, OwnerPlaces, OwnerSearch
from holdfast.store.postgres.connection import Connection, Row, rows
from holdfast.store.postgres.owner_rooms import ClaimOwners

_ABOVE_ALL = 2**15
"""Higher than any priority."""
_AHEAD = 100
"""Waiting owners of each family whose limits are looked up, the first time that one has no room."""
_AHEAD_GROWTH = 4
"""How many times as many each further time: many owners without room take few statements."""


class Subqueue(NamedTuple):
    """How many jobs to take of one lane, priority and owner; of the lane where these are None."""

    lane: int
    priority: int | None
    owner: str | None
    quota: int


async def plan_with_room(
    connection: Connection, shares: Mapping[str, Sequence[Any]], limited: ClaimOwners
) -> list[Subqueue]:
    """Choose jobs within the limits of owners; `shares` are the parameters of `claim_plan`.

    A plan keeps to the limits that are known. Where it met owners who turn out to have less, they
    and the owners next in turn are looked up, and all is planned again.
    """
    ahead = max(_AHEAD, *shares["most"])
    given: dict[str, Any]
    while True:
        given = {**shares, "remaining": limited.remaining_json()}
        found = await rows(connection, "claim_plan_with_room", **given)
        await limited.look_up(row["owner"] for row in found)
        beyond = _beyond_room(found, limited)
        if not beyond:
            break
        families = {shares["families"][shares["lanes"].index(row["lane"])] for row in beyond}
        kept = [family in families for family in shares["families"]]
        some = {name: list(compress(values, kept)) for name, values in shares.items()}
        given = {**some, "most": ahead, "remaining": limited.remaining_json()}
        waiting = await rows(connection, "claim_waiting_owners", **given)
        await limited.look_up(row["owner"] for row in waiting)
        ahead *= _AHEAD_GROWTH
    for row in found:
        limited.starts.reserve(row["owner"], row["quota"])
    return [Subqueue(*row) for row in found]


def _beyond_room(found: Sequence[Row], limited: ClaimOwners) -> list[Row]:
    """Return the rows of owners of whom more jobs were planned than may start."""
    planned: Counter[str] = Counter()
    for row in found:
        planned[row["owner"]] += row["quota"]
    full = {owner for owner, quota in planned.items() if quota > limited.remaining(owner)}
    return [row for row in found if row["owner"] in full]


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
        return owner in chosen or (limited is not None and limited.remaining(owner) == 0)

    level = await _level_below(connection, lanes, _ABOVE_ALL)
    while level is not None and len(chosen) < wanted:
        search = places.choose(wanted - len(chosen), turn, is_skipped)
        waiting = _WaitingOwners(connection, lanes, level, wanted - len(chosen), limited)
        for owner in await waiting.found_by(search):
            place = {"lanes": lanes, "priority": level, "owner": owner}
            for (lane,) in await rows(connection, "claim_lane_of_owner", **place):
                chosen[owner] = Subqueue(lane, level, owner, 1)
                if limited is not None:
                    limited.starts.reserve(owner, 1)
        level = await _level_below(connection, lanes, level)
    return list(chosen.values())


async def _level_below(connection: Connection, lanes: Sequence[int], level: int) -> int | None:
    """Return the highest priority of ready jobs that is below `level`."""
    ((priority,),) = await rows(connection, "claim_level_below", lanes=lanes, level=level)
    return None if priority is None else int(priority)


class _WaitingOwners:
    """The owners with ready jobs of one priority, read page by page in the order of their names.

    A search that goes through all of a page gets a larger one; after a leap a page has `first`.
    """

    def __init__(
        self,
        connection: Connection,
        lanes: Sequence[int],
        level: int,
        first: int,
        limited: ClaimOwners | None,
    ) -> None:
        self._connection = connection
        self._place = {"lanes": lanes, "priority": level}
        self._first = self._size = first
        self._limited = limited
        self._page: list[str] = []

    async def found_by(self, search: OwnerSearch) -> list[str]:
        """Answer `search`, and return the owners that it chose."""
        try:
            start = next(search)
            while True:
                start = search.send(await self._first_from(start))
        except StopIteration as ended:
            owners: list[str] = ended.value
            return owners

    async def _first_from(self, start: str) -> str | None:
        if not self._page or not self._page[0] < start <= self._page[-1]:
            await self._read(start)
        place = bisect_left(self._page, start)
        return self._page[place] if place < len(self._page) else None

    async def _read(self, start: str) -> None:
        goes_on = bool(self._page) and start == self._page[-1] + AFTER
        self._size = self._size * _AHEAD_GROWTH if goes_on else self._first
        place = {**self._place, "start": start, "most": self._size}
        found = await rows(self._connection, "claim_next_owners", **place)
        self._page = [row["owner"] for row in found]
        if self._limited is not None:
            await self._limited.look_up(self._page)
