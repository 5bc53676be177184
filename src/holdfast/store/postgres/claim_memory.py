"""What a store remembers from one claim to the next: a claim shall cost what it takes.

- Which lanes had ready jobs when all lanes were last looked through. A claim looks at as many of
  them as it wants jobs, in turn. All lanes are looked through again where that finds too few jobs,
  and otherwise every 20 ms, and for a tenth of the time at most.
- Whose turn it is among the owners in a lane.
- Where the last claim ended in a lane that gave many jobs. Index entries of claimed jobs stay until
  they are vacuumed, and a transaction that stays open prevents that, so the next claim begins
  there. Jobs that return to their old place in the queue may stand before it: after a second, and
  where too few jobs are found, a claim begins at the front again.

All of this may be outdated or forgotten; then a claim costs more, and nothing else changes.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.clock import Clock
from holdfast.jobs.claim_sharing import Turn, turn_after
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.postgres.connection import Row
from holdfast.store.postgres.lanes import Lane, Lanes

_SCAN_SHARE = 10
"""Lanes are looked through again after this many times as long as it took."""
_SCAN_EVERY = 0.02
"""Seconds after which they are looked through again at the earliest: with few lanes it takes so
little time that every second small claim would do it."""
_FROM_FRONT_EVERY = 1.0
"""Seconds after which a claim begins at the front of its lanes again."""
_MANY = 100
"""Jobs of one claim from a lane from which on it pays to remember where it ended."""
_MOST = 10_000
"""Lanes whose turns or ends are remembered, and ten times as many requests."""

Family = tuple[int, ...]
"""Ids of the lanes of one queue and downstream, one for each kind."""

NO_LANES: dict[str, Any] = {
    "after": 0, "lanes": None, "families": None, "owners": None, "used": None,
    "priorities": None, "ready_ats": None, "last_seqs": None,
}  # fmt: skip
"""The columns of a tick that claims nothing."""


class _End(NamedTuple):
    """The last job that a claim took from a lane."""

    priority: int
    ready_at: float
    seq: int


@dataclass(slots=True)
class _Waiting:
    """The families that had ready jobs, in the order of their first ids; the next one to serve.

    A round ends with the lane `round_end`, the newest one when it began. New lanes have the highest
    ids, so a round without an end would serve them before those that wait.
    """

    families: list[Family] = field(default_factory=list)
    position: int = 0
    scan_at: float = 0.0
    served: int = 0
    round_end: int = 0
    lanes: set[int | None] = field(default_factory=set)

    def window(self, limit: int) -> list[Family]:
        """Return the families that a claim of `limit` jobs should look at; the next is moved on."""
        families, position = self.families, self.position
        if not families:
            return []
        self.position = (position + min(limit, len(families))) % len(families)
        # Twice as many: some may have no more jobs.
        end = position + min(2 * limit, len(families))
        return families[position:end] + families[: max(0, end - len(families))]

    def serve(self, lanes: Iterable[int], newest: int) -> None:
        """Note that jobs of `lanes` were claimed; `newest` is the newest lane that waits."""
        # The last one in the round that began after the lane served before.
        self.served = max(lanes, key=lambda lane: (lane <= self.served, lane))
        self.round_end = self.round_end or newest
        if self.served >= self.round_end:
            self.served, self.round_end = 0, newest

    def replace(self, families: Iterable[Family], after: int) -> None:
        """Note these families; the first one after the lane `after` is next."""
        self.families = sorted(families)
        self.lanes = {lane for family in self.families for lane in family}
        self.position = bisect_right(self.families, after, key=lambda family: family[0])
        if self.position == len(self.families):
            self.position = 0

    def remove(self, lanes: Iterable[int]) -> None:
        """Forget families of which every lane is among `lanes`, until all are looked through."""
        idle = set(lanes)
        before = self.families[self.position - 1][0] if self.families else 0
        self.replace([each for each in self.families if not idle.issuperset(each)], before)


class ClaimMemory:
    """What one store remembers; its ticks share it.

    Args:
        lanes: names lanes by their ids.
        clock: its monotonic time.
    """

    def __init__(self, lanes: Lanes, clock: Clock) -> None:
        self._lanes = lanes
        self._monotonic = clock.monotonic
        self._waiting: dict[object, _Waiting] = {}
        self._turns: dict[tuple[str, str], Turn] = {}
        self._ends: dict[int, _End] = {}
        self._front_at = 0.0

    def _of(self, request: ClaimRequest) -> _Waiting:
        key = (request.queues, tuple(request.kinds))
        if key not in self._waiting and len(self._waiting) > _MOST:
            self._waiting.clear()
        return self._waiting.setdefault(key, _Waiting())

    def requeued(self) -> None:
        """Begin at the front of all lanes next time: a job may have returned to its old place."""
        self._ends.clear()

    def enqueued(self, jobs: Iterable[NewJob]) -> None:
        """Look through all lanes next time where `jobs`, just created here, are in new ones."""
        if not self._waiting:
            return
        places = {(job.queue, job.downstream or "", job.kind) for job in jobs}
        lanes = {self._lanes.known_ids.get(place) for place in places}
        for waiting in self._waiting.values():
            if not lanes <= waiting.lanes:
                waiting.scan_at = 0.0

    def window(self, request: ClaimRequest) -> tuple[list[Family], bool]:
        """Return the families to look at next, and whether to look through all lanes instead."""
        waiting = self._of(request)
        return waiting.window(request.limit), self._monotonic() >= waiting.scan_at

    def served(self, request: ClaimRequest) -> int:
        """Return the lane that was served last."""
        return self._of(request).served

    def columns(self, request: ClaimRequest) -> dict[str, Any]:
        """Return the same, and what is known of these lanes, as a tick takes it."""
        families, scans = self.window(request)
        now = self._monotonic()
        if now >= self._front_at:
            self._ends.clear()
            self._front_at = now + _FROM_FRONT_EVERY
        lanes = [lane for family in families for lane in family]
        numbers = [n for n, family in enumerate(families, start=1) for _ in family]
        turns = self.turns(lanes)
        ends = [self._ends.get(lane) for lane in lanes] if self._ends else []
        return {
            "after": self.served(request),
            "lanes": lanes,
            "families": None if scans else numbers,
            "owners": [turn.owner if turn else None for turn in turns],
            "used": [turn.used if turn else None for turn in turns],
            "priorities": [end.priority if end else None for end in ends],
            "ready_ats": [end.ready_at if end else None for end in ends],
            "last_seqs": [end.seq if end else None for end in ends],
        }

    def turns(self, lanes: Iterable[int]) -> list[Turn | None]:
        """Return the turn of each of `lanes`."""
        names, turns = self._lanes.known, self._turns
        return [turns.get(names[lane][:2]) if lane in names else None for lane in lanes]

    def learn(
        self,
        request: ClaimRequest,
        claimed: Sequence[Row],
        *,
        names: dict[int, Lane],
        scanned: tuple[Sequence[int], float] | None,
        idle: Sequence[int],
    ) -> None:
        """Take in what a claim found.

        Args:
            claimed: lines with claimed jobs.
            names: the lanes of these jobs, and those that were found by looking through all.
            scanned: all lanes that wait, and how many seconds it took to look for them; None where
                the claim did not.
            idle: lanes that gave nothing.
        """
        waiting = self._of(request)
        served = {lane for line in claimed for lane in line["lanes"]}
        self._lanes.remember(names)
        if served:
            found = scanned[0] if scanned else [each[-1] for each in waiting.families]
            waiting.serve(served, max((*served, *found)))
            self._note_turns(claimed, names)
        if scanned:
            families: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
            for lane in scanned[0]:
                families[names[lane][:2]].add(lane)
            for place, lanes in families.items():
                lanes.update(self._known_lanes(*place, request.kinds))
            waiting.replace((tuple(sorted(each)) for each in families.values()), waiting.served)
            waiting.scan_at = self._monotonic() + max(_SCAN_EVERY, _SCAN_SHARE * scanned[1])
        elif idle:
            waiting.remove(idle)
        if sum(len(line["seqs"]) for line in claimed) < request.limit:
            waiting.scan_at = 0.0

    def _known_lanes(self, queue: str, downstream: str, kinds: Iterable[str]) -> set[int]:
        """Return all known lanes of a family, also those that had no ready jobs.

        A job that becomes ready in one of them may have a higher priority than those that wait.
        """
        known = self._lanes.known_ids
        found = (known.get((queue, downstream, kind)) for kind in kinds)
        return {lane for lane in found if lane is not None}

    def _note_turns(self, claimed: Sequence[Row], names: dict[int, Lane]) -> None:
        if len(self._turns) > _MOST:
            self._turns.clear()
        for line in claimed:
            lanes, owners = line["lanes"], line["owners"]
            taken: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
            if owners is None:
                for lane, n in Counter(lanes).items():
                    taken[names[lane][:2]][""] += n
            else:
                for (lane, owner), n in Counter(zip(lanes, owners, strict=True)).items():
                    taken[names[lane][:2]][owner or ""] += n
            for family, counts in taken.items():
                self._turns[family] = turn_after(self._turns.get(family), counts)
            self._note_end(line)

    def _note_end(self, line: Row) -> None:
        """Remember the last job of a line of many jobs, if they are of one lane."""
        lanes = line["lanes"]
        if len(lanes) >= _MANY and lanes.count(lanes[-1]) == len(lanes):
            self._ends[lanes[-1]] = _End(
                line["priorities"][-1], line["ready_ats"][-1], line["seqs"][-1]
            )
