"""The ready jobs of a lane where limits of owners decide which of them may start."""

from collections.abc import Sequence
from functools import partial

from holdfast.jobs.claim_sharing import Turn, take_turns
from holdfast.jobs.owner_places import OwnerPlaces, OwnerSearch
from holdfast.store.sqlite.candidates import (
    Candidate,
    LaneKind,
    in_order,
    next_owner,
    owners_in_turn,
)
from holdfast.store.sqlite.owner_rooms import ClaimOwners
from holdfast.store.sqlite.transaction import Transaction

_ABOVE_ALL = 2**31
"""Higher than any priority."""


def heads_with_room(
    tx: Transaction,
    sources: Sequence[LaneKind],
    wanted: int,
    turn: Turn | None,
    limited: ClaimOwners,
) -> list[Candidate]:
    """Return up to `wanted` jobs of a lane within the limits of owners.

    They are in the buffers too. By priority, within a priority the owners in turn. Where none may
    start the sources are exhausted.
    """
    chosen: list[Candidate] = []
    lanes = [source.id for source in sources]
    level = _level_below(tx, lanes, _ABOVE_ALL)
    while level is not None and len(chosen) < wanted:

        def take(owner: str, most: int, level: int = level) -> int:
            found = _first_of(tx, sources, level, owner, min(most, limited.remaining(owner)))
            limited.starts.reserve(owner, len(found))
            chosen.extend(found)
            return len(found)

        rest = wanted - len(chosen)
        take_turns(owners_in_turn(tx, lanes, level, turn, limited), turn, rest, take)
        level = _level_below(tx, lanes, level)
    _fill_buffers(sources, chosen)
    return chosen


def heads_within(
    tx: Transaction,
    sources: Sequence[LaneKind],
    wanted: int,
    turn: Turn | None,
    places: OwnerPlaces,
    limited: ClaimOwners | None = None,
) -> list[Candidate]:
    """Return up to `wanted` jobs of a lane whose owners share the places of its downstream.

    At most one of each owner, otherwise as `heads_with_room`.
    """
    chosen: list[Candidate] = []
    lanes = [source.id for source in sources]
    level = _level_below(tx, lanes, _ABOVE_ALL)
    while level is not None and len(chosen) < wanted:
        used_up: set[str] = set()
        # Again where a job that was found had been taken before, in this claim: it is ready still.
        while len(chosen) < wanted:
            search = places.choose(
                wanted - len(chosen),
                turn,
                partial(_is_skipped, used_up, limited),
            )
            owners = _found_by(search, tx, lanes, level)
            found = {owner: _first_of(tx, sources, level, owner, 1) for owner in owners}
            for owner, jobs in found.items():
                chosen += jobs
                if limited is not None:
                    limited.starts.reserve(owner, len(jobs))
            used_up.update(found)
            if not found:
                break
        level = _level_below(tx, lanes, level)
    _fill_buffers(sources, chosen)
    return chosen


def _is_skipped(used_up: set[str], limited: ClaimOwners | None, owner: str) -> bool:
    return owner in used_up or (limited is not None and owner not in limited)


def _fill_buffers(sources: Sequence[LaneKind], chosen: Sequence[Candidate]) -> None:
    for source in sources:
        source.buffer = [job for its, job in chosen if its is source]
        source.exhausted = not chosen


def _level_below(tx: Transaction, lanes: Sequence[int], level: int) -> int | None:
    """Return the highest priority of ready jobs that is below `level`."""
    found = [tx.value("claim_level_below", {"lane": lane, "level": level}) for lane in lanes]
    return max((level for level in found if level is not None), default=None)


def _found_by(search: OwnerSearch, tx: Transaction, lanes: Sequence[int], level: int) -> list[str]:
    try:
        start = next(search)
        while True:
            start = search.send(next_owner(tx, lanes, level, start))
    except StopIteration as ended:
        owners: list[str] = ended.value
        return owners


def _first_of(
    tx: Transaction, sources: Sequence[LaneKind], level: int, owner: str, most: int
) -> list[Candidate]:
    """Return up to `most` first jobs of an owner that this claim has not read yet."""
    found: list[Candidate] = []
    for source in sources:
        place = {"lane": source.id, "priority": level, "owner": owner, "limit": most}
        offset = source.read[level, owner]
        rows = tx.rows("claim_candidates_of_owner", {**place, "offset": offset})
        found += [(source, job) for job in rows]
    if len(sources) > 1:
        found.sort(key=in_order)
    for source, _ in found[:most]:
        source.read[level, owner] += 1
    return found[:most]
