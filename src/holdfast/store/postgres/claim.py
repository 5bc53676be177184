"""Claims from lanes where a limit, or a breaker that is not closed, must be checked first.

Several statements in one transaction. The first step looks at no more lanes than there are jobs to
be claimed, as `holdfast.claim` does in the database where nothing must be checked. Where these are
full, each further step looks at several times as many.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.jobs.downstreams.record import Admission, DownstreamRecord
from holdfast.jobs.store_port import ClaimRequest, FailedJob
from holdfast.resilience.breaker.transitions import Permit
from holdfast.store.postgres.claim_memory import ClaimMemory
from holdfast.store.postgres.claim_shares import Family, LaneState, Share, has_room, shares_of
from holdfast.store.postgres.columns import PAGE, TIMEOUT_COLUMNS
from holdfast.store.postgres.connection import Connection, Row, rows
from holdfast.store.postgres.downstream_records import Reports
from holdfast.store.postgres.lanes import Lane
from holdfast.store.postgres.limits import Limits
from holdfast.store.postgres.owner_plan import Subqueue, plan_by_owner, plan_with_room
from holdfast.store.postgres.owner_rooms import ClaimOwners

_WINDOW_GROWTH = 4
"""How many times as many lanes each step looks at: many full downstreams take few statements."""
_LOCKED_CHECK = 1.0
"""Seconds after which to try lanes again whose downstreams another claim had locked."""

Admitted = tuple[Admission, Permit | None]
"""How a job was admitted, and under which permit of a breaker."""
_WITHOUT_BREAKER: Admitted = (Admission.CALL, None)


class Started(NamedTuple):
    """Jobs that were claimed: one array per column, and how each was admitted."""

    line: Row
    admitted: Iterable[Admitted]


def unchecked(line: Row) -> Started:
    """Return the jobs of `line` as admitted by closed breakers, or without one."""
    generations = line["generations"]
    if generations is None:
        return Started(line, repeat(_WITHOUT_BREAKER))
    known = {number: _admitted(number) for number in set(generations)}
    return Started(line, [known[number] for number in generations])


def timed_out_job(line: Row) -> FailedJob:
    """Return the job of a line that says `timed_out`."""
    return FailedJob(line["id"], dead_letter=line["number"] == 1)


def _admitted(generation: int | None) -> Admitted:
    return _WITHOUT_BREAKER if generation is None else (Admission.CALL, Permit(generation))


@dataclass(slots=True)
class CheckedClaim:
    """One claim inside a transaction; `request` is None where there are only reports to judge.

    `given` is the time of the claim in epoch seconds. None stands for the server's time, which only
    a claim can ask for: without a request, give a time. After `run`, `now` is the time that was
    used, and `lanes` (as `names`), `scanned` and `idle` are what `ClaimMemory.learn` takes.
    """

    connection: Connection
    worker_id: str
    request: ClaimRequest | None
    given: float | None
    memory: ClaimMemory
    clock: Clock = SYSTEM_CLOCK
    now: float = 0.0
    started: list[Started] = field(default_factory=list)
    timed_out: list[FailedJob] = field(default_factory=list)
    moved: list[DownstreamRecord] = field(default_factory=list)
    wake_at: float | None = None
    needs_check: bool = False
    lanes: dict[int, Lane] = field(default_factory=dict)
    scanned: tuple[Sequence[int], float] | None = None
    idle: list[int] = field(default_factory=list)
    limited: ClaimOwners | None = None

    async def run(self, reports: Reports) -> None:
        """Judge the accepted `reports`, then claim up to the request's limit."""
        if self.request is None:
            assert self.given is not None
            self.now = self.given
            limits = Limits(self.connection, self.now)
            await limits.judge(reports, ())
        else:
            begun = await rows(self.connection, "claim_promote", now=self.given)
            ((self.now, self.wake_at, found),) = begun
            limits = Limits(self.connection, self.now)
            default = self.request.owner_limits
            self.needs_check = self.request.limit > 0 and (found or default.limits_claims)
            await self._claim(limits, reports, self.request, limits_owners=self.needs_check)
            self._wake(limits.wake_at)
        await limits.save()
        if self.limited is not None:
            await self.limited.save()
            self._wake(self.limited.starts.wake_at)
        self.moved = limits.moved

    def _wake(self, at: float | None) -> None:
        if at is not None and at < (math.inf if self.wake_at is None else self.wake_at):
            self.wake_at = at

    async def _claim(
        self, limits: Limits, reports: Reports, request: ClaimRequest, *, limits_owners: bool
    ) -> None:
        """Claim from the lanes that are known to wait; then, once, from all that wait."""
        remaining, growth, judged = request.limit, 1, False
        known, scans = self.memory.window(request)
        families = await self._remembered(known, request) if remaining > 0 and not scans else []
        while remaining > 0:
            if not families and self.scanned is None:
                families = await self._scan(request, self.memory.served(request))
            if limits_owners and families and self.limited is None:
                # Before any downstream is locked: all claims lock in this order.
                default = request.owner_limits
                self.limited = await ClaimOwners.locked(self.connection, default, self.now)
            reported = {} if judged else reports
            window, families = self._split(families, remaining * growth, reported)
            growth *= _WINDOW_GROWTH
            names = {lane.downstream for family in window for lane in family if lane.needs_check}
            if judged:
                await limits.lock_more(names)
            else:
                judged = True
                await limits.judge(reports, names)
            window = [family for family in window if self._is_open(limits, family[0])]
            taken = await self._claim_from(limits, window, remaining, request) if window else 0
            remaining -= taken
            if not families and self.scanned is not None:
                break
        if not judged:
            await limits.judge(reports, ())

    async def _remembered(
        self, known: Sequence[Sequence[int]], request: ClaimRequest
    ) -> list[Family]:
        """Return the families with these ids, in their order."""
        ids = [lane for family in known for lane in family]
        if not ids:
            return []
        found = await rows(
            self.connection,
            "claim_remembered_lanes",
            lanes=ids,
            queues=request.queues,
            kinds=list(request.kinds),
            now=self.now,
        )
        lanes = {row[0]: LaneState(*row) for row in found}
        self.idle += [lane for lane in ids if lane not in lanes]
        return self._families(lanes[lane] for lane in ids if lane in lanes)

    async def _scan(self, request: ClaimRequest, served: int) -> list[Family]:
        """Return all families with ready jobs, beginning after the lane `served`."""
        begin = self.clock.monotonic()
        found = await rows(
            self.connection,
            "claim_lanes",
            queues=request.queues,
            kinds=list(request.kinds),
            now=self.now,
        )
        lanes = [LaneState(*row) for row in found]
        seconds = self.clock.monotonic() - begin
        self.scanned = [lane.id for lane in lanes if lane.held_until is None], seconds
        families = self._families(lanes)
        return sorted(families, key=lambda family: (family[0].id <= served, family[0].id))

    def _families(self, lanes: Iterable[LaneState]) -> list[Family]:
        """Group `lanes` into families, and note their names."""
        families: defaultdict[tuple[str, str], Family] = defaultdict(list)
        for lane in lanes:
            families[lane.queue, lane.downstream].append(lane)
            self.lanes[lane.id] = lane.queue, lane.downstream, lane.kind
        return list(families.values())

    def _split(
        self, families: list[Family], most: int, reports: Reports
    ) -> tuple[list[Family], list[Family]]:
        """Return up to `most` of `families` that are not held, and those after them.

        One whose downstream is among `reports` may be released by them.
        """
        window: list[Family] = []
        for number, family in enumerate(families):
            if len(window) == most:
                return window, families[number:]
            if family[0].held_until is None or family[0].downstream in reports:
                window.append(family)
            else:
                self._wake(family[0].held_until)
        return window, []

    def _is_open(self, limits: Limits, lane: LaneState) -> bool:
        """Say whether jobs of `lane` may be claimed as far as its breaker is concerned."""
        record = limits.record(lane.downstream)
        if record is None:
            if lane.needs_check:  # another claim has locked it
                self._wake(self.now + _LOCKED_CHECK)
            return lane.held_until is None and not lane.needs_check
        if record.held_until is not None and record.held_until > self.now:
            self._wake(record.held_until)
            return False
        return True

    async def _claim_from(
        self, limits: Limits, window: list[Family], limit: int, request: ClaimRequest
    ) -> int:
        """Claim up to `limit` jobs: equal shares, the rest from families with more jobs."""
        lanes = {lane.id: lane for family in window for lane in family}
        await self._read_limits(limits, lanes.values(), request)
        window = [family for family in window if has_room(limits, family)]
        await self._time_out([lane.id for family in window for lane in family])
        idle, remaining, skips = set(lanes), limit, 0
        while remaining > 0 and window:
            most = min(remaining, PAGE)
            asked, others = window[:most], window[most:]
            shares = shares_of(limits, asked, most)
            subqueues = await self._plan(limits, shares, skips)
            if not subqueues:
                window, skips = others, 0
                continue
            line = await self._take(subqueues, shares, request)
            if line["seqs"] is None:  # locked by other claims: take what stands behind those jobs
                if self.limited is None:
                    skips += 1
                else:
                    self.limited.leave_out(subqueue.owner or "" for subqueue in subqueues)
                continue
            await self._start(line, lanes, limits)
            remaining -= len(line["seqs"])
            idle.difference_update(line["lanes"])
            gave = set(line["lanes"])
            asked = [family for family in asked if any(lane.id in gave for lane in family)]
            window, skips = others + asked, 0 if others else skips
        self.idle += idle
        return limit - remaining

    async def _time_out(self, lanes: list[int]) -> None:
        if lanes:
            expired = await rows(
                self.connection,
                "claim_time_out",
                lanes=lanes,
                timeout=TIMEOUT_COLUMNS,
                now=self.now,
            )
            self.timed_out += map(timed_out_job, expired)

    async def _read_limits(
        self, limits: Limits, lanes: Iterable[LaneState], request: ClaimRequest
    ) -> None:
        names = {lane.downstream for lane in lanes if limits.record(lane.downstream)}
        limited = any(request.kinds[lane.kind] is not None for lane in lanes)
        self.needs_check = self.needs_check or limited or any(lane.needs_check for lane in lanes)
        # All limited kinds, not only those that wait here: they are locked in order, once.
        kinds = {kind: most for kind, most in request.kinds.items() if most is not None}
        await limits.count(names, kinds if limited else {}, request.aliases)

    async def _plan(self, limits: Limits, shares: Sequence[Share], skips: int) -> list[Subqueue]:
        """Choose jobs of the lanes in `shares`, within the limits of their kinds.

        With `skips`, take any jobs of that lane of each family, the first one for 1.
        """
        if self.limited is not None:
            self.limited.starts.start(())
        by_owner = [share for share in shares if limits.places(share.lane.downstream)]
        found = [] if skips else await self._planned_by_owner(limits, by_owner)
        shares = [share for share in shares if share not in by_owner]
        if skips:
            families: Counter[int] = Counter()
            for share in shares:
                families[share.family] += 1
                if families[share.family] == skips:
                    found.append(Subqueue(share.lane.id, None, None, share.most))
        elif shares:
            found += await self._planned(shares)
        kinds = {share.lane.id: share.lane.kind for share in [*by_owner, *shares]}
        remaining_of_kinds: dict[str, int | None] = {}
        subqueues = []
        for subqueue in found:
            kind = limits.limited_name(kinds[subqueue.lane])
            remaining = remaining_of_kinds.setdefault(kind, limits.kind_remaining(kind))
            quota = subqueue.quota if remaining is None else min(subqueue.quota, remaining)
            if remaining is not None:
                remaining_of_kinds[kind] = remaining - quota
            if quota > 0:
                subqueues.append(subqueue._replace(quota=quota))
        return subqueues

    async def _planned_by_owner(self, limits: Limits, shares: Sequence[Share]) -> list[Subqueue]:
        """Choose jobs of families whose owners share the places of the downstream."""
        families: defaultdict[int, list[Share]] = defaultdict(list)
        for share in shares:
            families[share.family].append(share)
        found: list[Subqueue] = []
        for family in families.values():
            lanes = [share.lane.id for share in family]
            (turn, *_), most = self.memory.turns(lanes), family[0].most
            places = limits.places(family[0].lane.downstream)
            assert places is not None
            found += await plan_by_owner(self.connection, lanes, most, turn, places, self.limited)
        return found

    async def _planned(self, shares: Sequence[Share]) -> list[Subqueue]:
        turns = self.memory.turns(share.lane.id for share in shares)
        given: dict[str, list[Any]] = {
            "lanes": [share.lane.id for share in shares],
            "families": [share.family for share in shares],
            "most": [share.most for share in shares],
            "owners": [turn.owner if turn else None for turn in turns],
            "used": [turn.used if turn else None for turn in turns],
        }
        if self.limited is not None:
            return await plan_with_room(self.connection, given, self.limited)
        found = await rows(self.connection, "claim_plan", **given)
        # A kind with little room gives its jobs of the highest priority.
        return [Subqueue(*row) for row in sorted(found, key=lambda row: -row["priority"])]

    async def _take(
        self, subqueues: Sequence[Subqueue], shares: Sequence[Share], request: ClaimRequest
    ) -> Row:
        lanes, priorities, owners, quotas = zip(*subqueues, strict=True)
        (line,) = await rows(
            self.connection,
            "claim_take",
            worker=self.worker_id,
            subqueue_lanes=lanes,
            priorities=priorities,
            owners=owners,
            quotas=quotas,
            lanes=[share.lane.id for share in shares],
            generations=[share.generation for share in shares],
            lease=request.lease_seconds,
            now=self.now,
        )
        return line

    async def _start(self, line: Row, lanes: dict[int, LaneState], limits: Limits) -> None:
        """Give each job its permit: from each downstream exactly as many as jobs were taken."""
        for kind, taken in Counter(lanes[lane].kind for lane in line["lanes"]).items():
            limits.use_kind(kind, taken)
        if self.limited is not None:
            self.limited.starts.start(line["owners"] or ())
        names = [lanes[lane].downstream for lane in line["lanes"]]
        permits = {
            name: iter(limits.take(name, taken))
            for name, taken in Counter(names).items()
            if limits.record(name) is not None
        }
        without_check = unchecked(line).admitted
        admitted: list[Admitted] = [
            next(permits[name]) if name in permits else unchecked_one
            for name, unchecked_one in zip(names, without_check, strict=False)
        ]
        self.started.append(Started(line, admitted))
        trials = [
            (seq, permit.trial)
            for seq, (_, permit) in zip(line["seqs"], admitted, strict=True)
            if permit is not None and permit.trial is not None
        ]
        if trials:
            seqs, numbers = zip(*trials, strict=True)
            await rows(self.connection, "claim_trials", seqs=seqs, trials=numbers)
