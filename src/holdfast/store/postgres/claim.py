"""Claims from lanes where a limit, or a breaker that is not closed, must be checked first.

The pure functions of `holdfast.jobs.downstreams` decide; what they decide on is locked first, in
the order that the package's docstring gives, so that limits hold in the whole fleet.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

from holdfast.jobs.claim_rules import share_out
from holdfast.jobs.downstreams.claim_permits import RateSpent, grant, rate_slices
from holdfast.jobs.downstreams.record import Admission, DownstreamRecord, judge
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.breaker.transitions import CircuitState, Permit
from holdfast.store.postgres import downstreams
from holdfast.store.postgres.columns import TIMED_OUT
from holdfast.store.postgres.connection import Connection, Row, rows
from holdfast.store.postgres.downstreams import Reports

_RATE_CHECK = 1.0
_Grant = tuple[Admission, Permit]

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


def _admitted(generation: int | None) -> Admitted:
    return _WITHOUT_BREAKER if generation is None else (Admission.CALL, Permit(generation))


class _Lane(NamedTuple):
    """A row of `claim_lanes`."""

    id: int
    queue: str
    downstream: str
    kind: str
    generation: int | None
    open_until: float | None
    stance: str


class _Head(NamedTuple):
    """A job that waits at the head of its lane."""

    lane: _Lane
    order: tuple[int, float, int]


@dataclass(slots=True)
class CheckedClaim:
    """One claim inside a transaction; `request` is None where there are only reports to judge."""

    connection: Connection
    worker_id: str
    request: ClaimRequest | None
    now: float
    served: int
    started: list[Started] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    moved: list[DownstreamRecord] = field(default_factory=list)
    wake_at: float | None = None
    needs_check: bool = False
    _before: dict[str, DownstreamRecord] = field(default_factory=dict)
    _records: dict[str, DownstreamRecord] = field(default_factory=dict)
    _running: dict[str, int] = field(default_factory=dict)
    _kind_rooms: dict[str, int] = field(default_factory=dict)
    _spent: dict[str, list[RateSpent]] = field(default_factory=dict)
    _trials: dict[str, dict[int, float]] = field(default_factory=dict)

    async def run(self, reports: Reports) -> None:
        """Judge the accepted `reports`, then claim up to the request's limit."""
        lanes = await self._waiting_lanes()
        names = {lane.downstream for lane in lanes if lane.stance == "check"} | set(reports)
        if names:
            self._before = await downstreams.lock(self.connection, names)
            self._records = {
                name: judge(record, reports.get(name, ()), self.now)
                for name, record in self._before.items()
            }
        lanes = [lane for lane in lanes if not self._is_held(lane)]
        if lanes and self.request is not None:
            await self._count(lanes)
            await self._claim(lanes, self.request)
        await self._keep()

    async def _waiting_lanes(self) -> list[_Lane]:
        if self.request is None:
            return []
        self.wake_at = (await rows(self.connection, "claim_promote", now=self.now))[0][0]
        found = await rows(
            self.connection,
            "claim_lanes",
            queues=self.request.queues,
            kinds=list(self.request.kinds),
            now=self.now,
        )
        lanes = [_Lane(*row) for row in found] if self.request.limit > 0 else []
        self.needs_check = any(
            lane.stance == "check" or self.request.kinds[lane.kind] is not None for lane in lanes
        )
        return lanes

    def _wake(self, at: float | None) -> None:
        if at is not None and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at

    def _is_held(self, lane: _Lane) -> bool:
        record = self._records.get(lane.downstream)
        held = lane.stance == "held" if record is None else record.holds_at(self.now)
        if held:
            self._wake(lane.open_until if record is None else record.circuit.open_until)
        return held

    async def _count(self, lanes: Sequence[_Lane]) -> None:
        """Read what the limits of `lanes` are judged by, once no other worker can change it."""
        assert self.request is not None
        limits = {
            lane.kind: limit
            for lane in lanes
            if (limit := self.request.kinds[lane.kind]) is not None
        }
        if limits:
            await rows(self.connection, "claim_lock_kinds", kinds=sorted(limits))
        names = [lane.downstream for lane in lanes if lane.downstream in self._records]
        if not names and not limits:
            return
        by_kind: Counter[str] = Counter()
        by_name: Counter[str] = Counter()
        for downstream, kind, n in await rows(
            self.connection, "claim_running", downstreams=names, kinds=list(limits)
        ):
            by_kind[kind] += n
            by_name[downstream] += n
        self._kind_rooms = {kind: limit - by_kind[kind] for kind, limit in limits.items()}
        self._running = dict(by_name)
        for name in dict.fromkeys(names):
            await self._read_limits(self._records[name])

    async def _read_limits(self, record: DownstreamRecord) -> None:
        name = record.name
        if record.settings.rate is not None:
            found = await rows(self.connection, "claim_rate_spent", downstream=name)
            self._spent[name] = [RateSpent(*row) for row in found]
        if record.circuit.state is not CircuitState.CLOSED:
            generation = record.circuit.generation
            found = await rows(
                self.connection, "claim_trial_leases", downstream=name, generation=generation
            )
            self._trials[name] = dict(map(tuple, found))

    def _grant(self, name: str, wanted: int) -> tuple[DownstreamRecord, Sequence[_Grant]]:
        granted = grant(
            self._records[name],
            wanted,
            self.now,
            running=self._running.get(name, 0),
            spent=self._spent.get(name, ()),
            trial_leases=self._trials.get(name),
        )
        if len(granted.permits) < wanted and self._records[name].settings.rate is not None:
            self._wake(self.now + _RATE_CHECK)
        return granted.record, granted.permits

    async def _claim(self, lanes: Sequence[_Lane], request: ClaimRequest) -> None:
        ids = [lane.id for lane in lanes]
        expired = await rows(
            self.connection, "claim_time_out", lanes=ids, timeout=TIMED_OUT, now=self.now
        )
        self.timed_out = [row["id"] for row in expired]
        permits = {
            name: self._grant(name, request.limit)[1]
            for name in {lane.downstream for lane in lanes} & set(self._records)
        }
        by_id = {lane.id: lane for lane in lanes}
        found = await rows(self.connection, "claim_heads", lanes=ids, limit=request.limit)
        heads = [_Head(by_id[row[0]], (-row[1], row[2], row[3])) for row in found]
        rooms = {name: len(some) for name, some in permits.items()}
        quotas = self._share_out(heads, request.limit, rooms)
        if not quotas:
            return
        taken = [lane for lane in lanes if quotas[lane.id]]
        (line,) = await rows(
            self.connection,
            "claim_take",
            worker=self.worker_id,
            lanes=[lane.id for lane in taken],
            quotas=[quotas[lane.id] for lane in taken],
            generations=[_generation(lane, permits) for lane in taken],
            lease=request.lease_seconds,
            now=self.now,
        )
        if line["seqs"] is not None:
            await self._start(line, by_id)

    def _share_out(self, heads: Iterable[_Head], limit: int, rooms: dict[str, int]) -> Counter[int]:
        """Return how many jobs each lane may give: equal shares, within every limit."""
        waiting: dict[tuple[str, str], deque[_Head]] = {}
        for head in sorted(heads, key=lambda head: head.order):
            waiting.setdefault((head.lane.queue, head.lane.downstream), deque()).append(head)
        groups = sorted(waiting.values(), key=self._turn)
        kind_rooms = dict(self._kind_rooms)
        quotas: Counter[int] = Counter()

        def take(group: deque[_Head], wanted: int) -> int:
            taken = 0
            while group and taken < wanted and rooms.get(group[0].lane.downstream, 1) > 0:
                lane = group.popleft().lane
                if kind_rooms.get(lane.kind, 1) <= 0:
                    continue
                for room, name in ((kind_rooms, lane.kind), (rooms, lane.downstream)):
                    if name in room:
                        room[name] -= 1
                quotas[lane.id] += 1
                taken += 1
            return taken

        share_out(groups, limit, take)
        return quotas

    def _turn(self, group: Sequence[_Head]) -> tuple[bool, int]:
        lane = group[0].lane.id
        return lane <= self.served, lane

    async def _start(self, line: Row, lanes: dict[int, _Lane]) -> None:
        """Give each job its permit: from each downstream exactly as many as jobs were taken."""
        names = [lanes[lane].downstream for lane in line["lanes"]]
        permits = {}
        for name, taken in Counter(names).items():
            if name not in self._records:
                continue
            self._records[name], granted = self._grant(name, taken)
            calls = sum(admission is not Admission.REFUSED for admission, _ in granted)
            await self._spend(self._records[name], calls)
            permits[name] = iter(granted)
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

    async def _spend(self, record: DownstreamRecord, calls: int) -> None:
        if not calls:
            return
        for period, width, _ in rate_slices(record.settings.rate):
            slot = {"downstream": record.name, "width": width}
            bucket = int(self.now // width)
            await rows(self.connection, "claim_spend", **slot, bucket=bucket, spent=calls)
            oldest = int((self.now - period) // width)
            await rows(self.connection, "claim_forget_spent", **slot, bucket=oldest)

    async def _keep(self) -> None:
        """Write the records that changed, and note breakers that changed their state."""
        for name in sorted(self._records):
            before, after = self._before[name], self._records[name]
            if after is before:
                continue
            stored = await downstreams.save(self.connection, after)
            if stored is None:
                raise AssertionError(f"downstream {name!r} changed under our own lock")
            if stored.circuit.state is not before.circuit.state:
                self.moved.append(stored)


def _generation(lane: _Lane, granted: dict[str, Sequence[_Grant]]) -> int | None:
    permits = granted.get(lane.downstream)
    return permits[0][1].generation if permits else lane.generation
