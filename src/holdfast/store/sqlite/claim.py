"""Claim the next jobs: promote what is due, visit the eligible lanes in turn, start attempts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat

from holdfast.jobs.downstreams.record import (
    Admission,
    DownstreamRecord,
    RateSpent,
    grant,
    rate_slices,
)
from holdfast.jobs.model import Claim, Lease
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.breaker.transitions import CircuitState, Permit
from holdfast.store.sqlite import downstreams
from holdfast.store.sqlite.ends import time_out
from holdfast.store.sqlite.transaction import Row, Transaction, as_json, as_numbers

_PROMOTED_AT_ONCE = 1000
_RATE_CHECK = 1.0
# Places in a row of `claim_candidates`: to name them, each row would have to be made anew.
_SEQ, _ID, _PRIORITY, _READY_AT, _ATTEMPTS, _TOKEN, _DEADLINE = 0, 1, 2, 3, 4, 6, 9


@dataclass(slots=True, eq=False)
class _Strand:
    """The ready jobs of one kind in one lane, read in their order, a few at a time."""

    id: int
    queue: str
    downstream: str
    kind: str
    buffer: list[Row] = field(default_factory=list)
    read: int = 0
    exhausted: bool = False

    def fill(self, tx: Transaction, wanted: int) -> None:
        """Have `wanted` candidates at hand, or all there are."""
        missing = wanted - len(self.buffer)
        if missing <= 0 or self.exhausted:
            return
        parameters = {"lane": self.id, "limit": missing, "taken": self.read}
        rows = tx.rows("claim_candidates", parameters)
        self.read += len(rows)
        self.exhausted = len(rows) < missing
        self.buffer += rows


_Taken = tuple[_Strand, Row]
_Leave = tuple[Admission, Permit | None]
_FREE: _Leave = (Admission.CALL, None)


@dataclass(slots=True)
class ClaimWork:
    """One claim: what was asked for, what was taken so far, and what room is left."""

    tx: Transaction
    request: ClaimRequest
    worker_id: str
    timed_out: list[str] = field(default_factory=list)
    wake_at: float | None = None
    _records: dict[str, DownstreamRecord | None] = field(default_factory=dict)
    _rooms: dict[str, int] = field(default_factory=dict)
    _kind_rooms: dict[str, int] = field(default_factory=dict)
    _contested: bool = False

    def run(self) -> tuple[Claim, ...]:
        """Claim up to the request's limit."""
        self._promote_due()
        self._unhold_cooled()
        if self.request.limit <= 0:
            return ()
        lanes = self._eligible()
        taken = self._take_in_turn(lanes)
        claims = self._start(taken)
        if self._contested and taken:
            served = sorted({(strand.queue, strand.downstream) for strand, _ in taken})
            self.tx.change("claim_served", {"lanes": as_json(served)})
        return claims

    def _promote_due(self) -> None:
        tx = self.tx
        next_due = tx.value("claim_next_due")
        if next_due is None or next_due > tx.now:
            self._wake(next_due)
            return
        promoted = tx.rows("claim_promote", {"now": tx.now, "limit": _PROMOTED_AT_ONCE})
        for lane, n in Counter(lane for (lane,) in promoted).items():
            tx.move_count(lane, "scheduled", "ready", n)
        tx.flush()
        self._wake(tx.value("claim_next_due"))

    def _unhold_cooled(self) -> None:
        tx = self.tx
        next_cooled = tx.value("claim_next_cooled")
        if next_cooled is not None and next_cooled <= tx.now:
            tx.change("claim_unhold_lanes", {"now": tx.now})
            tx.change("claim_unhold_downstreams", {"now": tx.now})
            next_cooled = tx.value("claim_next_cooled")
        self._wake(next_cooled)

    def _wake(self, at: float | None) -> None:
        if at is not None and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at

    def _eligible(self) -> list[list[_Strand]]:
        """Return lanes with something to take, those served longest ago first."""
        found: list[tuple[int, list[_Strand]]] = []
        for queue in dict.fromkeys(self.request.queues):
            # Read only as far as needed: there may be a lane for every host of the web.
            usable = 0
            rows = self.tx.each("claim_lanes", {"queue": queue})
            for (served, _), lane in groupby(rows, key=lambda row: (row[0], row[3])):
                if usable == self.request.limit:
                    self._contested = True
                    break
                strands = [_Strand(*row[1:]) for row in lane if row[4] in self.request.kinds]
                if strands and self._usable(strands):
                    usable += 1
                    found.append((served, strands))
        found.sort(key=lambda lane: lane[0])
        self._contested = self._contested or len(found) > 1
        return [strands for _, strands in found]

    def _usable(self, lane: list[_Strand]) -> bool:
        free = any(self._kind_room(strand.kind) > 0 for strand in lane)
        return free and self._room(lane[0].downstream) > 0

    def _take_in_turn(self, lanes: list[list[_Strand]]) -> list[_Taken]:
        """Give every lane an equal share, and what some leave over to the others."""
        taken: list[_Taken] = []
        remaining = self.request.limit
        while lanes and remaining > 0:
            share = max(1, remaining // len(lanes))
            unfinished = []
            for lane in lanes:
                wanted = min(share, remaining, self._room(lane[0].downstream))
                if wanted <= 0:
                    continue
                got = self._take(lane, wanted)
                remaining -= len(got)
                self._use(lane[0].downstream, len(got))
                taken.extend(got)
                if any(self._open(strand) for strand in lane):
                    unfinished.append(lane)
            lanes = unfinished
        return taken

    def _open(self, strand: _Strand) -> bool:
        more = bool(strand.buffer) or not strand.exhausted
        return more and self._kind_room(strand.kind) > 0

    def _take(self, lane: list[_Strand], wanted: int) -> list[_Taken]:
        """Take the first `wanted` of a lane by priority and time; fail what comes too late."""
        heads = self._heads(lane, wanted)
        unlimited = len(lane) == 1 and lane[0].kind not in self._kind_rooms
        if unlimited and all(job[_DEADLINE] is None for _, job in heads):
            del lane[0].buffer[: len(heads)]
            return heads
        taken: list[_Taken] = []
        expired: list[_Taken] = []
        for strand, job in heads:
            room = self._kind_rooms.get(strand.kind)
            if len(taken) == wanted or room == 0:
                continue
            del strand.buffer[0]
            deadline_at = job[_DEADLINE]
            if deadline_at is not None and self.tx.now > deadline_at:
                expired.append((strand, job))
                strand.read -= 1
                continue
            taken.append((strand, job))
            if room is not None:
                self._kind_rooms[strand.kind] = room - 1
        self._fail_expired(expired)
        return taken

    def _heads(self, lane: list[_Strand], wanted: int) -> list[_Taken]:
        """Return what could be taken, in the order of the lane."""
        heads: list[_Taken] = []
        for strand in lane:
            most = min(wanted, self._kind_room(strand.kind))
            if most > 0:
                strand.fill(self.tx, most)
                heads += [(strand, job) for job in strand.buffer[:most]]
        if len(lane) > 1:
            heads.sort(key=lambda head: (-head[1][_PRIORITY], head[1][_READY_AT], head[1][_SEQ]))
        return heads

    def _fail_expired(self, expired: Iterable[_Taken]) -> None:
        for strand, job in expired:
            seq, token, attempts = job[_SEQ], job[_TOKEN], job[_ATTEMPTS]
            time_out(self.tx, seq, token, strand.id, strand.kind, "ready", attempts)
            self.timed_out.append(job[_ID])

    def _kind_room(self, kind: str) -> int:
        limit = self.request.kinds[kind]
        if limit is None:
            return self.request.limit
        if kind not in self._kind_rooms:
            self._kind_rooms[kind] = limit - int(
                self.tx.value("claim_running_of_kind", {"kind": kind})
            )
        return self._kind_rooms[kind]

    def _room(self, downstream: str) -> int:
        """Return how many more jobs of `downstream` this claim may take."""
        if not downstream:
            return self.request.limit
        if downstream not in self._rooms:
            record = downstreams.load(self.tx, downstream)
            self._records[downstream] = record
            self._rooms[downstream] = (
                self.request.limit
                if record is None
                else len(self._grant(record, self.request.limit)[1])
            )
        return self._rooms[downstream]

    def _use(self, downstream: str, n: int) -> None:
        if downstream:
            self._rooms[downstream] -= n

    def _grant(
        self, record: DownstreamRecord, wanted: int
    ) -> tuple[DownstreamRecord, Sequence[tuple[Admission, Permit]]]:
        tx, name = self.tx, record.name
        spent = [
            RateSpent(*row)
            for row in (
                tx.rows("claim_rate_spent", {"downstream": name}) if record.settings.rate else ()
            )
        ]
        trials: dict[int, float] = {}
        if record.circuit.state is not CircuitState.CLOSED:
            generation = record.circuit.generation
            trials = dict(
                tx.rows("claim_trial_leases", {"downstream": name, "generation": generation})
            )
        running = int(tx.value("claim_running_of_downstream", {"downstream": name}))
        leave = grant(record, wanted, tx.now, running=running, spent=spent, trial_leases=trials)
        if len(leave.permits) < wanted and record.settings.rate is not None:
            self._wake(tx.now + _RATE_CHECK)
        return leave.record, leave.permits

    def _start(self, taken: Sequence[_Taken]) -> tuple[Claim, ...]:
        """Start the attempts of all jobs taken."""
        if not taken:
            return ()
        permits = self._permits(taken)
        every = [job[_SEQ] for _, job in taken]
        batches: dict[Permit | None, list[int]] = {}
        if permits is None:
            batches[None] = every
        else:
            for seq, (_, permit) in zip(every, permits, strict=True):
                batches.setdefault(permit, []).append(seq)
        tx, expires_at = self.tx, self.tx.now + self.request.lease_seconds
        for permit, seqs in batches.items():
            tx.change_exactly(
                len(seqs),
                "claim_start",
                {
                    "worker": self.worker_id,
                    "expires_at": expires_at,
                    "now": tx.now,
                    "generation": permit.generation if permit else None,
                    "trial": permit.trial if permit else None,
                    "seqs": as_numbers(seqs),
                },
            )
        by_attempt: dict[int, list[int]] = {}
        for _, job in taken:
            by_attempt.setdefault(job[_ATTEMPTS] + 1, []).append(job[_SEQ])
        for attempt, seqs in by_attempt.items():
            given = {"seqs": as_numbers(seqs), "attempt": attempt, "now": tx.now}
            tx.change("claim_events", given)
        for lane, n in Counter(strand.id for strand, _ in taken).items():
            tx.move_count(lane, "ready", "processing", n)
        return self._claims(taken, permits or repeat(_FREE), expires_at)

    def _permits(self, taken: Sequence[_Taken]) -> list[_Leave] | None:
        """Take from each downstream exactly as many permits as jobs were taken; None: no limit."""
        by_name = Counter(strand.downstream for strand, _ in taken)
        granted = {}
        for name, n in by_name.items():
            record = self._records.get(name)
            if record is None:
                continue
            kept, permits = self._grant(record, n)
            downstreams.keep(self.tx, record, kept)
            calls = sum(admission is not Admission.REFUSED for admission, _ in permits)
            self._spend(record, calls)
            granted[name] = iter(permits)
        if not granted:
            return None
        return [
            next(granted[strand.downstream]) if strand.downstream in granted else _FREE
            for strand, _ in taken
        ]

    def _spend(self, record: DownstreamRecord, calls: int) -> None:
        if not calls:
            return
        for period, width, _ in rate_slices(record.settings.rate):
            slot = {"downstream": record.name, "width": width}
            bucket = int(self.tx.now // width)
            self.tx.change("claim_spend", {**slot, "bucket": bucket, "spent": calls})
            oldest = int((self.tx.now - period) // width)
            self.tx.change("claim_forget_spent", {**slot, "bucket": oldest})

    def _claims(
        self, taken: Sequence[_Taken], leaves: Iterable[_Leave], expires_at: float
    ) -> tuple[Claim, ...]:
        """Return the claims of jobs as they now stand: an attempt and a token further than read."""
        claims = []
        worker_id, now, claimed = self.worker_id, self.tx.now, self.tx.claimed
        for (strand, job), (admission, permit) in zip(taken, leaves, strict=False):
            seq, job_id, _, _, attempts, most, token, owner, created_at, deadline_at, meta, text = (
                job
            )
            attempt, token = attempts + 1, token + 1
            if deadline_at is None:
                claimed[job_id] = (seq, token, strand.id, strand.kind, attempt, worker_id, now)
            claims.append(
                Claim(
                    Lease(job_id, token, worker_id, expires_at),
                    strand.kind,
                    strand.queue,
                    strand.downstream or None,
                    text,
                    attempt,
                    most,
                    owner,
                    created_at,
                    now,
                    deadline_at,
                    meta,
                    admission,
                    permit,
                )
            )
        return tuple(claims)
