"""How jobs leave a status: the writes that finishing, rescue, deadlines and cancelling share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import ERRORS, ErrorCode
from holdfast.jobs.model import AttemptOutcome, DeadLetterReason, EventName, JobError
from holdfast.jobs.views import normalise_error
from holdfast.store.sqlite.transaction import Transaction, as_json
from holdfast.store.text import clean

TIMED_OUT = JobError(ErrorCode.TIMEOUT, ERRORS[ErrorCode.TIMEOUT].message)
LEASE_LOST = JobError(ErrorCode.LEASE_LOST, ERRORS[ErrorCode.LEASE_LOST].message)


class End(NamedTuple):
    """How one attempt ended, for its history: a row of `finish_ends`.

    `duration` and `retry_after` are seconds.
    """

    seq: int
    outcome: AttemptOutcome
    event: EventName
    duration: float
    error_code: str | None = None
    error_message: str | None = None
    retry_after: float | None = None
    meta: str | None = None


def record_ends(tx: Transaction, ends: Sequence[End]) -> None:
    """Write the history of `ends`; to be called before the jobs themselves move."""
    if ends:
        tx.change_exactly(len(ends), "finish_ends", {"ends": as_json(ends), "now": tx.now})


def record_event(
    tx: Transaction,
    seq: int,
    name: EventName,
    *,
    error: JobError | None = None,
    meta: str | None = None,
) -> None:
    """Write one event that belongs to no attempt's end."""
    code = error.code if error else None
    tx.change(
        "finish_event", {"job": seq, "name": name, "now": tx.now, "error_code": code, "meta": meta}
    )


@dataclass(frozen=True, slots=True)
class Fall:
    """One job that fails. `place` is where its lane counts it now."""

    seq: int
    token: int
    lane: int
    kind: str
    place: str
    attempts: int
    error: JobError
    dead_letter: DeadLetterReason | None


def fail(tx: Transaction, falls: Sequence[Fall]) -> None:
    """Move jobs to failed, and count them. Their events are the caller's."""
    if not falls:
        return
    rows = []
    for fall in falls:
        message = clean(fall.error.message)
        group = normalise_error(message)
        rows.append([fall.seq, fall.token, fall.error.code, message, group, fall.dead_letter])
        tx.move_count(fall.lane, fall.place, "failed")
        tx.count_outcome(fall.kind, "failed", fall.attempts)
        if fall.dead_letter is not None:
            tx.count_dead(fall.kind, fall.error.code, group, 1)
    tx.change_exactly(len(rows), "finish_failed", {"rows": as_json(rows), "now": tx.now})


@dataclass(slots=True)
class Leaving:
    """Jobs that leave `processing`: gathered one by one, and then written together.

    `ends` is the history of their attempts, which is the caller's to add to.
    """

    tx: Transaction
    ends: list[End] = field(default_factory=list)
    _falls: list[Fall] = field(default_factory=list)
    _requeued: list[list[float]] = field(default_factory=list)
    _cancelled: list[list[int]] = field(default_factory=list)

    def fall(
        self,
        seq: int,
        token: int,
        lane: int,
        kind: str,
        attempts: int,
        error: JobError,
        reason: DeadLetterReason | None,
    ) -> None:
        """Let a job fail, for a dead letter where there is a `reason`."""
        self._falls.append(Fall(seq, token, lane, kind, "processing", attempts, error, reason))

    def cancel(self, seq: int, token: int, lane: int, kind: str, attempts: int) -> None:
        """Let a job be cancelled."""
        self._cancelled.append([seq, token])
        self.tx.move_count(lane, "processing", "cancelled")
        self.tx.count_outcome(kind, "cancelled", attempts)

    def put_back(
        self,
        seq: int,
        token: int,
        lane: int,
        after: float = 0.0,
        *,
        given_back: bool = False,
        in_its_place: bool = False,
    ) -> None:
        """Let a job be ready again `after` seconds; `given_back` does not count the attempt."""
        self._requeued.append([seq, token, after, int(given_back), int(in_its_place)])
        self.tx.move_count(lane, "processing", "ready" if after <= 0 else "scheduled")
        self.tx.woke = True

    def write(self) -> None:
        """Write all of them down, the history first."""
        tx = self.tx
        record_ends(tx, self.ends)
        moves = (("finish_requeue", self._requeued), ("finish_cancelled", self._cancelled))
        for query, rows in moves:
            if rows:
                tx.change_exactly(len(rows), query, {"rows": as_json(rows), "now": tx.now})
        fail(tx, self._falls)


def time_out(
    tx: Transaction, seq: int, token: int, lane: int, kind: str, place: str, attempts: int
) -> None:
    """Fail a job that nobody runs and whose deadline has passed."""
    record_event(tx, seq, EventName.FAILED, error=TIMED_OUT)
    fall = Fall(seq, token, lane, kind, place, attempts, TIMED_OUT, DeadLetterReason.DEADLINE)
    fail(tx, [fall])
    tx.count_total("timed_out")
