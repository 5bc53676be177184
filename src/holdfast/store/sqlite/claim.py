"""Claim the next jobs: promote those due, take from the eligible lanes in turn, start attempts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat

from holdfast.jobs.claim_sharing import Turn, share_out, turn_after
from holdfast.jobs.downstreams.claim_permits import (
    RateSpent,
    grant,
    rate_check_at,
    rate_widths,
)
from holdfast.jobs.downstreams.record import Admission, DownstreamRecord
from holdfast.jobs.model import Claim, Lease
from holdfast.jobs.owner_places import OwnerPlaces
from holdfast.jobs.store_port import ClaimRequest, FailedJob
from holdfast.resilience.breaker.transitions import CircuitState, Permit
from holdfast.store.sqlite import downstream_records
from holdfast.store.sqlite.attempt_ends import time_out
from holdfast.store.sqlite.candidates import (
    ATTEMPTS,
    DEADLINE,
    ID,
    OWNER,
    SEQ,
    TOKEN,
    Candidate,
    LaneKind,
    heads_of,
)
from holdfast.store.sqlite.owner_candidates import heads_with_room, heads_within
from holdfast.store.sqlite.owner_rooms import ClaimOwners
from holdfast.store.sqlite.transaction import Transaction, as_json, as_numbers

_PROMOTED_AT_ONCE = 1000
"""Most scheduled jobs that one claim makes ready; the next claim goes on."""
_TURNS_KEPT = 10_000
"""Lanes whose turns are remembered; beyond that all are forgotten."""

Turns = dict[tuple[str, str], Turn]
"""Whose turn it is in each lane, by queue and downstream; it may be forgotten."""
_Admitted = tuple[Admission, Permit | None]
_UNLIMITED: _Admitted = (Admission.CALL, None)


@dataclass(slots=True)
class ClaimBatch:
    """One claim: the request, and how many more jobs each kind and downstream may start."""

    tx: Transaction
    request: ClaimRequest
    worker_id: str
    turns: Turns
    timed_out: list[FailedJob] = field(default_factory=list)
    wake_at: float | None = None
    _records: dict[str, DownstreamRecord | None] = field(default_factory=dict)
    _remaining_of_downstreams: dict[str, int] = field(default_factory=dict)
    _remaining_of_kinds: dict[str, int] = field(default_factory=dict)
    _places: dict[str, OwnerPlaces | None] = field(default_factory=dict)
    _owners: ClaimOwners | None = None
    _contested: bool = False

    def run(self) -> tuple[Claim, ...]:
        """Claim up to the request's limit."""
        self._promote_due()
        self._unhold_cooled()
        if self.request.limit <= 0:
            return ()
        lanes = self._eligible()
        if lanes:
            self._owners = ClaimOwners.of(self.tx, self.request.owner_limits)
        taken = self._take_in_turn(lanes)
        claims = self._start(taken)
        if self._owners is not None:
            self._owners.starts.start(job[OWNER] for _, job in taken)
            self._owners.spend()
            self._wake(self._owners.starts.wake_at)
        if self._contested and taken:
            served = sorted({(source.queue, source.downstream) for source, _ in taken})
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

    def _eligible(self) -> list[list[LaneKind]]:
        """Return lanes with jobs that may start, the one served longest ago first."""
        found: list[tuple[int, list[LaneKind]]] = []
        for queue in dict.fromkeys(self.request.queues):
            # Read only as far as needed: there may be thousands of lanes, one for each host.
            usable = 0
            rows = self.tx.each("claim_lanes", {"queue": queue})
            for (served, _), lane in groupby(rows, key=lambda row: (row[0], row[3])):
                if usable == self.request.limit:
                    self._contested = True
                    break
                kinds = [LaneKind(*row[1:]) for row in lane if row[4] in self.request.kinds]
                if kinds and self._usable(kinds):
                    usable += 1
                    found.append((served, kinds))
        found.sort(key=lambda lane: lane[0])
        self._contested = self._contested or len(found) > 1
        return [kinds for _, kinds in found]

    def _usable(self, lane: list[LaneKind]) -> bool:
        free = any(self._kind_remaining(source.kind) > 0 for source in lane)
        return free and self._remaining(lane[0].downstream) > 0

    def _take_in_turn(self, lanes: Sequence[list[LaneKind]]) -> list[Candidate]:
        """Take the jobs of the claim, shared out among `lanes`."""
        taken: list[Candidate] = []

        def take(lane: list[LaneKind], wanted: int) -> int:
            downstream, before = lane[0].downstream, len(taken)
            missing = min(wanted, self._remaining(downstream))
            # Once more if some of the candidates were past their deadline.
            while missing > 0 and any(self._open(source) for source in lane):
                got = self._take(lane, missing)
                missing -= len(got)
                taken.extend(got)
                self._note_turn(lane[0], got)
            self._use(downstream, len(taken) - before)
            return len(taken) - before

        share_out(lanes, self.request.limit, take)
        return taken

    def _open(self, source: LaneKind) -> bool:
        more = bool(source.buffer) or not source.exhausted
        return more and self._kind_remaining(source.kind) > 0

    def _take(self, lane: list[LaneKind], wanted: int) -> list[Candidate]:
        """Take the first `wanted` jobs of a lane; fail those past their deadline."""
        heads = self._heads(lane, wanted)
        unlimited = len(lane) == 1 and self.request.kinds[lane[0].kind] is None
        if unlimited and all(job[DEADLINE] is None for _, job in heads):
            del lane[0].buffer[: len(heads)]
            return heads
        taken: list[Candidate] = []
        expired: list[Candidate] = []
        for source, job in heads:
            limited = self.request.limited_name(source.kind)
            remaining = self._remaining_of_kinds.get(limited)
            if len(taken) == wanted or remaining == 0:
                continue
            del source.buffer[0]
            deadline_at = job[DEADLINE]
            if deadline_at is not None and self.tx.now > deadline_at:
                expired.append((source, job))
                source.count([job], -1)
                if self._owners is not None:
                    self._owners.starts.release(job[OWNER] or "", 1)
                continue
            taken.append((source, job))
            if remaining is not None:
                self._remaining_of_kinds[limited] = remaining - 1
        self._fail_expired(expired)
        return taken

    def _heads(self, lane: list[LaneKind], wanted: int) -> list[Candidate]:
        """Return the candidates of a lane in its order."""
        sources = [(source, min(wanted, self._kind_remaining(source.kind))) for source in lane]
        sources = [(source, most) for source, most in sources if most > 0]
        turn = self.turns.get((lane[0].queue, lane[0].downstream))
        places = self._owner_places(lane[0].downstream)
        if places is None and self._owners is None:
            return heads_of(self.tx, sources, wanted, turn)
        kinds = [source for source, _ in sources]
        if places is not None:
            return heads_within(self.tx, kinds, wanted, turn, places, self._owners)
        assert self._owners is not None
        return heads_with_room(self.tx, kinds, wanted, turn, self._owners)

    def _owner_places(self, downstream: str) -> OwnerPlaces | None:
        """Return who holds the places of `downstream`; None where its owners leave none spare."""
        if downstream not in self._places:
            record = self._records.get(downstream)
            places = None
            if record is not None and record.settings.spare:
                running = self.tx.rows("claim_running_owners", {"downstream": downstream})
                places = OwnerPlaces.of(record.settings, (owner for (owner,) in running))
            self._places[downstream] = places
        return self._places[downstream]

    def _note_turn(self, lane: LaneKind, taken: Sequence[Candidate]) -> None:
        """Remember the owner served last: this claim may take from the lane once more."""
        if not taken:
            return
        if len(self.turns) > _TURNS_KEPT:
            self.turns.clear()
        name = lane.queue, lane.downstream
        owners = Counter([job[OWNER] or "" for _, job in taken])
        self.turns[name] = turn_after(self.turns.get(name), owners)

    def _fail_expired(self, expired: Iterable[Candidate]) -> None:
        for source, job in expired:
            seq, token, attempts = job[SEQ], job[TOKEN], job[ATTEMPTS]
            is_letter = time_out(self.tx, seq, token, source.id, source.kind, "ready", attempts)
            self.timed_out.append(FailedJob(job[ID], dead_letter=is_letter))

    def _kind_remaining(self, kind: str) -> int:
        limit = self.request.kinds[kind]
        if limit is None:
            return self.request.limit
        name = self.request.limited_name(kind)
        if name not in self._remaining_of_kinds:
            self._remaining_of_kinds[name] = limit - sum(
                int(self.tx.value("claim_running_of_kind", {"kind": each}))
                for each in self.request.names_counted_as(name)
            )
        return self._remaining_of_kinds[name]

    def _remaining(self, downstream: str) -> int:
        """Return how many more jobs of `downstream` this claim may take."""
        if not downstream:
            return self.request.limit
        if downstream not in self._remaining_of_downstreams:
            record = downstream_records.load(self.tx, downstream)
            self._records[downstream] = record
            self._remaining_of_downstreams[downstream] = (
                self.request.limit
                if record is None
                else len(self._grant(record, self.request.limit)[1])
            )
        return self._remaining_of_downstreams[downstream]

    def _use(self, downstream: str, n: int) -> None:
        if downstream:
            self._remaining_of_downstreams[downstream] -= n

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
        granted = grant(record, wanted, tx.now, running=running, spent=spent, trial_leases=trials)
        if len(granted.permits) < wanted and record.settings.rate is not None:
            self._wake(rate_check_at(record.settings.rate, spent, tx.now))
        return granted.record, granted.permits

    def _start(self, taken: Sequence[Candidate]) -> tuple[Claim, ...]:
        """Start the attempts of all jobs taken."""
        if not taken:
            return ()
        permits = self._permits(taken)
        every = [job[SEQ] for _, job in taken]
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
            by_attempt.setdefault(job[ATTEMPTS] + 1, []).append(job[SEQ])
        for attempt, seqs in by_attempt.items():
            given = {"seqs": as_numbers(seqs), "attempt": attempt, "now": tx.now}
            tx.change("claim_events", given)
        for lane, n in Counter(source.id for source, _ in taken).items():
            tx.move_count(lane, "ready", "processing", n)
        return self._claims(taken, permits or repeat(_UNLIMITED), expires_at)

    def _permits(self, taken: Sequence[Candidate]) -> list[_Admitted] | None:
        """Take one permit of its downstream for each job; None if no downstream has limits."""
        by_name = Counter(source.downstream for source, _ in taken)
        granted = {}
        for name, n in by_name.items():
            record = self._records.get(name)
            if record is None:
                continue
            kept, permits = self._grant(record, n)
            downstream_records.keep(self.tx, record, kept)
            calls = sum(admission is not Admission.REFUSED for admission, _ in permits)
            self._spend(record, calls)
            granted[name] = iter(permits)
        if not granted:
            return None
        return [
            next(granted[source.downstream]) if source.downstream in granted else _UNLIMITED
            for source, _ in taken
        ]

    def _spend(self, record: DownstreamRecord, calls: int) -> None:
        if not calls:
            return
        for width, period in rate_widths(record.settings.rate).items():
            slot = {"downstream": record.name, "width": width}
            bucket = int(self.tx.now // width)
            self.tx.change("claim_spend", {**slot, "bucket": bucket, "spent": calls})
            oldest = int((self.tx.now - period) // width)
            self.tx.change("claim_forget_spent", {**slot, "bucket": oldest})

    def _claims(
        self, taken: Sequence[Candidate], admitted: Iterable[_Admitted], expires_at: float
    ) -> tuple[Claim, ...]:
        """Return the claims; attempt and token are one higher than in the rows that were read."""
        claims = []
        worker_id, now = self.worker_id, self.tx.now
        lost = self._lost_workers(taken)
        for (source, job), (admission, permit) in zip(taken, admitted, strict=False):
            _, job_id, _, _, attempts, most, token, owner, created_at, deadline_at, meta, text = job
            claims.append(
                Claim(
                    Lease(job_id, token + 1, worker_id, expires_at),
                    source.kind,
                    source.queue,
                    source.downstream or None,
                    text,
                    attempts + 1,
                    most,
                    owner,
                    created_at,
                    now,
                    deadline_at,
                    meta,
                    admission,
                    permit,
                    job[SEQ] in lost,
                )
            )
        return tuple(claims)

    def _lost_workers(self, taken: Sequence[Candidate]) -> set[int]:
        """Return the jobs that have lost a worker, where the request asks for them."""
        if not self.request.with_lost_workers:
            return set()
        tried = [job[SEQ] for _, job in taken if job[ATTEMPTS]]
        if not tried:
            return set()
        found = self.tx.rows("claim_lost_workers", {"seqs": as_numbers(tried)})
        return {seq for (seq,) in found}
