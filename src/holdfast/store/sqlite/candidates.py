"""The ready jobs of a lane, in the order in which a claim takes them.

By priority, within a priority the owners in turn, within an owner by time. Jobs are read in the
order of the index, a few at a time; only where more than one owner waits at the priority of the
last job that is needed, those of each owner are read apart.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.jobs.claim_sharing import TURN, Turn, take_turns
from holdfast.store.sqlite.transaction import Row, Transaction

# Columns of `claim_candidates`: named tuples would cost an object per row.
SEQ, ID, PRIORITY, READY_AT, ATTEMPTS, TOKEN, OWNER, DEADLINE = 0, 1, 2, 3, 4, 6, 7, 9


@dataclass(slots=True, eq=False)
class LaneKind:
    """The ready jobs of one kind in one lane: `buffer` has those read and not taken yet.

    `read` counts the jobs read so far, by sub-queue: priority and owner. `shared` says that owners
    have taken turns, so these are not the first ones in the order of the index.
    """

    id: int
    queue: str
    downstream: str
    kind: str
    buffer: list[Row] = field(default_factory=list)
    read: Counter[tuple[int, str]] = field(default_factory=Counter)
    exhausted: bool = False
    shared: bool = False

    def fill(self, tx: Transaction, wanted: int) -> None:
        """Read until there are `wanted` candidates in the buffer, or no more."""
        missing = wanted - len(self.buffer)
        if missing <= 0 or self.exhausted:
            return
        before = self.read.total()
        limit, offset = (missing + before, 0) if self.shared else (missing, before)
        rows = tx.rows("claim_candidates", {"lane": self.id, "limit": limit, "offset": offset})
        self.exhausted = len(rows) < limit
        if self.shared:
            rows = list(self._unread(rows))
        if rows and rows[0][PRIORITY] == rows[-1][PRIORITY] and rows[0][OWNER] == rows[-1][OWNER]:
            # In the order of the index, so all between them are alike.
            self.read[rows[0][PRIORITY], rows[0][OWNER] or ""] += len(rows)
        else:
            self.count(rows)
        self.buffer += rows

    def _unread(self, rows: Sequence[Row]) -> Iterator[Row]:
        seen: Counter[tuple[int, str]] = Counter()
        for row in rows:
            sub_queue = row[PRIORITY], row[OWNER] or ""
            seen[sub_queue] += 1
            if seen[sub_queue] > self.read[sub_queue]:
                yield row

    def count(self, rows: Sequence[Row], sign: int = 1) -> None:
        """Count `rows` as read, or as not read with a `sign` of -1."""
        for row in rows:
            self.read[row[PRIORITY], row[OWNER] or ""] += sign


Candidate = tuple[LaneKind, Row]


def heads_of(
    tx: Transaction, sources: Sequence[tuple[LaneKind, int]], wanted: int, turn: Turn | None
) -> list[Candidate]:
    """Return the first `wanted` jobs of a lane, and maybe more; they are in the buffers too.

    Args:
        sources: the kinds of the lane, and how many jobs of each may be taken.
        turn: whose turn it is.
    """
    heads: list[Candidate] = []
    for source, most in sources:
        source.fill(tx, most)
        heads += [(source, job) for job in source.buffer[:most]]
    if len(heads) >= wanted:
        level = heads[wanted - 1][1][PRIORITY]
        if len(sources) > 1:
            heads.sort(key=in_order)
            level = heads[wanted - 1][1][PRIORITY]
        if _several_wait(tx, heads, level, wanted, turn):
            return _shared(tx, heads, [source for source, _ in sources], level, wanted, turn)
    elif len(sources) > 1:
        heads.sort(key=in_order)
    return heads


def in_order(head: Candidate) -> tuple[int, float, int]:
    """Return what jobs of one owner are sorted by."""
    _, job = head
    return -job[PRIORITY], job[READY_AT], job[SEQ]


def _several_wait(
    tx: Transaction, heads: Sequence[Candidate], level: int, wanted: int, turn: Turn | None
) -> bool:
    """Say whether this claim must share the jobs of the priority `level` among several owners."""
    waiting = [head for head in heads if head[1][PRIORITY] == level]
    owner = waiting[0][1][OWNER]
    if any(job[OWNER] != owner for _, job in waiting):
        return True
    # The index is in the order of the owners, so `first` is the first of those that wait. If it is
    # also its turn, and the claim fits into that turn, no other owner is served.
    first = owner or ""
    if wanted <= TURN and (turn is None or (turn.owner == first and turn.used + wanted <= TURN)):
        return False
    lanes = list({source.id for source, _ in waiting})
    return next_owner(tx, lanes, level, first + "\x01") is not None


def next_owner(tx: Transaction, lanes: Sequence[int], level: int, start: str) -> str | None:
    """Return the first owner from `start` on with ready jobs of the priority `level`."""
    found = [
        tx.value("claim_next_owner", {"lane": lane, "priority": level, "start": start})
        for lane in lanes
    ]
    return min((owner for owner in found if owner is not None), default=None)


def owners_in_turn(
    tx: Transaction,
    lanes: Sequence[int],
    level: int,
    turn: Turn | None,
    allowed: Container[str] | None = None,
) -> Iterator[str]:
    """Yield the owners with ready jobs in the order of `in_turn`, reading one at a time.

    With `allowed`, only those in it.
    """
    begins = ""
    if turn is not None:
        # "\x01" makes the first text after a given one.
        begins = turn.owner + "\x01" if turn.used >= TURN else turn.owner
    for start, end in ((begins, None), ("", begins)):
        owner = next_owner(tx, lanes, level, start) if end != "" else None
        while owner is not None and (end is None or owner < end):
            if allowed is None or owner in allowed:
                yield owner
            owner = next_owner(tx, lanes, level, owner + "\x01")


def _shared(
    tx: Transaction,
    heads: Sequence[Candidate],
    sources: Sequence[LaneKind],
    level: int,
    wanted: int,
    turn: Turn | None,
) -> list[Candidate]:
    """Return the jobs above `level`, and the rest of `wanted` from the owners at that level."""
    chosen = [head for head in heads if head[1][PRIORITY] > level]
    for source in sources:
        source.shared = True
        source.count([job for job in source.buffer if job[PRIORITY] <= level], -1)

    def take(owner: str, most: int) -> int:
        found: list[Candidate] = []
        for source in sources:
            sub_queue = {"lane": source.id, "priority": level, "owner": owner}
            rows = tx.rows(
                "claim_candidates_of_owner",
                {**sub_queue, "limit": most, "offset": source.read[level, owner]},
            )
            found += [(source, job) for job in rows]
        if len(sources) > 1:
            found.sort(key=in_order)
        for source, job in found[:most]:
            source.read[level, owner] += 1
            chosen.append((source, job))
        return min(most, len(found))

    rest = wanted - len(chosen)
    # An owner whose jobs this claim has all read gives none; another one has what `heads` found.
    owners = owners_in_turn(tx, [source.id for source in sources], level, turn)
    take_turns(owners, turn, rest, take)
    for source in sources:
        source.buffer = [job for its, job in chosen if its is source]
        source.exhausted = False
    return chosen
