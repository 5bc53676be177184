"""How attempts end: the writes that finishing, rescue, deadlines and cancelling share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.jobs.model import AttemptOutcome, DeadLetterReason, EventName, JobError
from holdfast.jobs.report_rules import TIMED_OUT
from holdfast.store.error_columns import error_columns
from holdfast.store.sqlite.transaction import Transaction, as_json


class RunningJob(NamedTuple):
    """The job that a report is about, as it is stored: a row of `finish_rows`."""

    key: int
    seq: int
    status: str
    token: int
    lane: int
    kind: str
    attempt_count: int
    max_attempts: int
    worker_id: str
    last_attempt_at: float
    deadline_at: float | None
    cancel_requested: int
    error_code: str | None

    def duration(self, measured: float | None, now: float) -> float:
        """Return the seconds that the attempt took: `measured`, or by the store's clock."""
        return max(0.0, now - self.last_attempt_at) if measured is None else measured


class AttemptEnd(NamedTuple):
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
    traceback: str | None = None


def record_event(
    tx: Transaction,
    seq: int,
    name: EventName,
    *,
    error: JobError | None = None,
    meta: str | None = None,
) -> None:
    """Write one event that does not end an attempt."""
    code = error.code if error else None
    tx.change(
        "finish_event", {"job": seq, "name": name, "now": tx.now, "error_code": code, "meta": meta}
    )


@dataclass(frozen=True, slots=True)
class JobFailure:
    """One job that fails. `counter` is the counter of its lane that counts it now."""

    seq: int
    token: int
    lane: int
    kind: str
    counter: str
    attempts: int
    error: JobError
    dead_letter: DeadLetterReason | None


def stored_reason(tx: Transaction, kind: str, reason: DeadLetterReason) -> DeadLetterReason | None:
    """Return why a job that the store itself ends is a dead letter; None if its kind has none.

    It does so at deadlines, where a worker died, and where no attempt is left. What a worker
    reports holds as it is.
    """
    return None if tx.value("dead_letters_has_none", {"kind": kind}) else reason


def fail(tx: Transaction, failures: Sequence[JobFailure]) -> None:
    """Move jobs to failed, and count them. The caller writes their events."""
    if not failures:
        return
    rows = []
    for job in failures:
        code, message, group = error_columns(job.error)
        rows.append([job.seq, job.token, code, message, group, job.dead_letter])
        tx.move_count(job.lane, job.counter, "failed")
        tx.count_outcome(job.kind, "failed", job.attempts)
        if job.dead_letter is not None:
            tx.count_dead(job.kind, code, group, 1)
    tx.change_exactly(len(rows), "finish_failed", {"rows": as_json(rows), "now": tx.now})


@dataclass(slots=True)
class EndedAttempts:
    """Jobs that leave `processing`: collected one by one, then written together.

    The caller appends each attempt's history to `ends`.
    """

    tx: Transaction
    ends: list[AttemptEnd] = field(default_factory=list)
    _failures: list[JobFailure] = field(default_factory=list)
    _requeued: list[list[float]] = field(default_factory=list)
    _cancelled: list[list[int]] = field(default_factory=list)

    def fail(
        self,
        seq: int,
        token: int,
        lane: int,
        kind: str,
        attempts: int,
        error: JobError,
        dead_letter: DeadLetterReason | None,
    ) -> None:
        """Add a job that fails; with a reason it becomes a dead letter."""
        self._failures.append(
            JobFailure(seq, token, lane, kind, "processing", attempts, error, dead_letter)
        )

    def cancel(self, seq: int, token: int, lane: int, kind: str, attempts: int) -> None:
        """Add a job that is cancelled."""
        self._cancelled.append([seq, token])
        self.tx.move_count(lane, "processing", "cancelled")
        self.tx.count_outcome(kind, "cancelled", attempts)

    def requeue(
        self,
        seq: int,
        token: int,
        lane: int,
        after: float = 0.0,
        *,
        counted: bool = True,
        keep_place: bool = False,
        lost_worker: bool = False,
    ) -> None:
        """Add a job that is ready again `after` seconds.

        Unless `counted`, the attempt is taken off the job's count; `keep_place` lets it wait where
        it waited before, ahead of jobs that came later.
        """
        self._requeued.append(
            [seq, token, after, int(not counted), int(keep_place), int(lost_worker)]
        )
        self.tx.move_count(lane, "processing", "ready" if after <= 0 else "scheduled")
        self.tx.woke = True

    def write(self) -> None:
        """Write the history first, which reads the attempts from the rows, then move the jobs."""
        tx = self.tx
        if self.ends:
            ends = {"ends": as_json(self.ends), "now": tx.now}
            tx.change_exactly(len(self.ends), "finish_ends", ends)
        moves = (("finish_requeue", self._requeued), ("finish_cancelled", self._cancelled))
        for query, rows in moves:
            if rows:
                tx.change_exactly(len(rows), query, {"rows": as_json(rows), "now": tx.now})
        fail(tx, self._failures)


def time_out(
    tx: Transaction, seq: int, token: int, lane: int, kind: str, counter: str, attempts: int
) -> bool:
    """Fail a job that is not running and whose deadline has passed; True if as a dead letter."""
    record_event(tx, seq, EventName.FAILED, error=TIMED_OUT)
    reason = stored_reason(tx, kind, DeadLetterReason.DEADLINE)
    fail(tx, [JobFailure(seq, token, lane, kind, counter, attempts, TIMED_OUT, reason)])
    tx.count_total("timed_out")
    return reason is not None
