"""The ready jobs of a lane whose owners share the places of its downstream, one of each in turn."""

from collections.abc import Sequence

from holdfast.jobs.claim_sharing import Turn
from holdfast.jobs.owner_places import OwnerPlaces
from holdfast.store.sqlite.candidates import Candidate, LaneKind, in_order, next_owner
from holdfast.store.sqlite.transaction import Transaction

_ABOVE_ALL = 2**31
"""Higher than any priority."""


def heads_within(
    tx: Transaction,
    sources: Sequence[LaneKind],
    wanted: int,
    turn: Turn | None,
    places: OwnerPlaces,
) -> list[Candidate]:
    """Return up to `wanted` jobs of a lane, at most one of each owner; they are in the buffers too.

    By priority, within a priority the owners in turn. Where none may start the sources are
    exhausted.
    """
    chosen: list[Candidate] = []
    lanes = [source.id for source in sources]
    level = _level_below(tx, lanes, _ABOVE_ALL)
    while level is not None and len(chosen) < wanted:
        used_up: set[str] = set()
        # Again where a job that was found had been taken before, in this claim: it is ready still.
        while len(chosen) < wanted:
            owners = _owners(tx, lanes, level, wanted - len(chosen), turn, places, used_up)
            found = {owner: _first_of(tx, sources, level, owner) for owner in owners}
            chosen += [job for job in found.values() if job is not None]
            used_up.update(found)
            if not found:
                break
        level = _level_below(tx, lanes, level)
    for source in sources:
        source.buffer = [job for its, job in chosen if its is source]
        source.exhausted = not chosen
    return chosen


def _level_below(tx: Transaction, lanes: Sequence[int], level: int) -> int | None:
    """Return the highest priority of ready jobs that is below `level`."""
    found = [tx.value("claim_level_below", {"lane": lane, "level": level}) for lane in lanes]
    return max((level for level in found if level is not None), default=None)


def _owners(
    tx: Transaction,
    lanes: Sequence[int],
    level: int,
    wanted: int,
    turn: Turn | None,
    places: OwnerPlaces,
    used_up: set[str],
) -> list[str]:
    search = places.choose(wanted, turn, used_up)
    try:
        start = next(search)
        while True:
            start = search.send(next_owner(tx, lanes, level, start))
    except StopIteration as ended:
        owners: list[str] = ended.value
        return owners


def _first_of(
    tx: Transaction, sources: Sequence[LaneKind], level: int, owner: str
) -> Candidate | None:
    """Return the first job of an owner that this claim has not read yet."""
    found: list[Candidate] = []
    for source in sources:
        place = {"lane": source.id, "priority": level, "owner": owner, "limit": 1}
        offset = source.read[level, owner]
        rows = tx.rows("claim_candidates_of_owner", {**place, "offset": offset})
        found += [(source, job) for job in rows]
    if not found:
        return None
    first = min(found, key=in_order)
    first[0].read[level, owner] += 1
    return first
