"""Record what a worker finished: compare, set, and keep the history."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.errors import ErrorCode
from holdfast.jobs.circuits import CallReport
from holdfast.jobs.model import (
    AttemptOutcome,
    Cancelled,
    Completed,
    DeadLetterReason,
    EventName,
    Failed,
    Finished,
    JobError,
    JobStatus,
    Released,
    Retry,
)
from holdfast.jobs.ports import Overruled, Refusal, Refused
from holdfast.store.sqlite.downstreams import apply_reports
from holdfast.store.sqlite.ends import (
    TIMED_OUT,
    End,
    Fall,
    fail,
    record_ends,
    record_event,
)
from holdfast.store.sqlite.transaction import Row, Transaction, as_json, clean


class _Running(NamedTuple):
    """A row of `finish_rows`."""

    key: int
    seq: int
    status: str
    token: int
    lane: int
    kind: str
    attempt_count: int
    max_attempts: int
    last_attempt_at: float
    deadline_at: float | None
    cancel_requested: int
    error_code: str | None


@dataclass(slots=True)
class FinishWork:
    """One tick's reports, sorted by what becomes of their jobs and then written together."""

    tx: Transaction
    refused: list[Refused] = field(default_factory=list)
    overruled: list[Overruled] = field(default_factory=list)
    _ends: list[End] = field(default_factory=list)
    _complete: list[tuple[Any, ...]] = field(default_factory=list)
    _completed: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    _requeue: list[list[Any]] = field(default_factory=list)
    _falls: list[Fall] = field(default_factory=list)
    _cancelled: list[list[Any]] = field(default_factory=list)
    _late: list[tuple[_Running, str | None]] = field(default_factory=list)
    _reports: list[CallReport] = field(default_factory=list)

    def run(self, finished: Sequence[Finished]) -> None:
        """Record all of `finished`."""
        if not finished:
            return
        ids = as_json([item.lease.job_id for item in finished])
        found = {row[0]: row for row in self.tx.rows("finish_rows", {"ids": ids})}
        seen: set[int] = set()
        for key, item in enumerate(finished):
            row = found.get(key)
            if row is None or row[3] != item.lease.token or row[1] in seen:
                self._refuse(item, None)
            elif row[2] != "processing":
                self._refuse(item, _Running._make(row))
            else:
                seen.add(row[1])
                if item.report is not None:
                    self._reports.append(item.report)
                # Nearly all reports are of this kind, and need nothing of what the others do.
                if isinstance(item.outcome, Completed) and row[9] is None:
                    self._complete_one(item, item.outcome, row)
                else:
                    self._accept(item, _Running._make(row))
        self._write()

    def _complete_one(self, item: Finished, outcome: Completed, row: Row) -> None:
        """Accept a completion that no deadline has overtaken; `row` is one of `finish_rows`."""
        _, seq, _, token, lane, kind, attempts, _, started_at, _, _, _ = row
        duration = item.duration
        if duration is None:
            duration = max(0.0, self.tx.now - started_at)
        result, meta = _storable(outcome.result), _storable(item.meta)
        self._complete.append((seq, token, result, duration, meta))
        self._completed[lane, kind, attempts] += 1

    def _accept(self, item: Finished, row: _Running) -> None:
        outcome = item.outcome
        past_deadline = row.deadline_at is not None and self.tx.now > row.deadline_at
        if past_deadline and not isinstance(outcome, Cancelled):
            self._time_out(item, row)
            return
        match outcome:
            case Completed():
                self._complete_one(item, outcome, row)
            case Failed(error, dead_letter):
                self._fail(item, row, error, dead_letter)
            case Cancelled():
                self._cancel(item, row)
            case Retry() | Released() if row.cancel_requested:
                self._cancel(item, row)
                self.overruled.append(Overruled(item.lease, JobStatus.CANCELLED))
            case Retry(_, error) if row.attempt_count >= row.max_attempts:
                self._fail(item, row, error, DeadLetterReason.ATTEMPTS_EXHAUSTED)
                self.overruled.append(Overruled(item.lease, JobStatus.FAILED))
            case Retry(after, error):
                self._end(item, row, AttemptOutcome.RETRY, EventName.RETRY, error, after)
                self._put_back(row, after, given_back=0)
            case Released(after):
                self._end(item, row, AttemptOutcome.RELEASED, EventName.RELEASED)
                self._put_back(row, after, given_back=1)

    def _time_out(self, item: Finished, row: _Running) -> None:
        self._end(item, row, AttemptOutcome.TIMEOUT, EventName.FAILED, TIMED_OUT)
        self._fall(row, TIMED_OUT, DeadLetterReason.DEADLINE)
        self.tx.count_total("timed_out")
        if isinstance(item.outcome, Completed):
            self._late.append((row, item.outcome.result))
        self.overruled.append(Overruled(item.lease, JobStatus.FAILED))

    def _fail(
        self, item: Finished, row: _Running, error: JobError, reason: DeadLetterReason | None
    ) -> None:
        self._end(item, row, AttemptOutcome.FAILED, EventName.FAILED, error)
        self._fall(row, error, reason)

    def _fall(self, row: _Running, error: JobError, reason: DeadLetterReason | None) -> None:
        self._falls.append(
            Fall(
                row.seq,
                row.token,
                row.lane,
                row.kind,
                "processing",
                row.attempt_count,
                error,
                reason,
            )
        )

    def _cancel(self, item: Finished, row: _Running) -> None:
        self._end(item, row, AttemptOutcome.CANCELLED, EventName.CANCELLED)
        self._cancelled.append([row.seq, row.token])
        self.tx.move_count(row.lane, "processing", "cancelled")
        self.tx.count_outcome(row.kind, "cancelled", row.attempt_count)

    def _put_back(self, row: _Running, after: float, *, given_back: int) -> None:
        self._requeue.append([row.seq, row.token, after, given_back])
        self.tx.move_count(row.lane, "processing", "ready" if after <= 0 else "scheduled")
        self.tx.woke = True

    def _end(
        self,
        item: Finished,
        row: _Running,
        outcome: AttemptOutcome,
        event: EventName,
        error: JobError | None = None,
        retry_after: float | None = None,
    ) -> None:
        duration = self._duration(item, row)
        code, message = (None, None) if error is None else (error.code, clean(error.message))
        self._ends.append(
            End(
                row.seq,
                outcome,
                event,
                duration,
                code,
                message,
                retry_after,
                _storable(item.meta),
            )
        )

    def _duration(self, item: Finished, row: _Running) -> float:
        if item.duration is not None:
            return item.duration
        return max(0.0, self.tx.now - row.last_attempt_at)

    def _refuse(self, item: Finished, row: _Running | None) -> None:
        """Refuse a report; `row` is the job where it still bears the report's token."""
        timed_out = row is not None and row.error_code == ErrorCode.TIMEOUT
        if row is not None and timed_out and isinstance(item.outcome, Completed):
            self._late.append((row, item.outcome.result))
            self.refused.append(Refused(item.lease, Refusal.LATE))
        else:
            self.refused.append(Refused(item.lease, Refusal.STALE))
            self.tx.count_total("refused_writes")

    def _write(self) -> None:
        tx = self.tx
        record_ends(tx, self._ends)
        self._write_complete()
        for query, rows in (
            ("finish_requeue", self._requeue),
            ("finish_cancelled", self._cancelled),
        ):
            if rows:
                tx.change_exactly(len(rows), query, {"rows": as_json(rows), "now": tx.now})
        fail(tx, self._falls)
        for row, result in self._late:
            keep_late_result(tx, row.seq, row.token, result)
        apply_reports(tx, self._reports)

    def _write_complete(self) -> None:
        if not self._complete:
            return
        tx, n = self.tx, len(self._complete)
        given = {"rows": as_json(self._complete), "now": tx.now}
        tx.change("finish_complete_attempts", given)
        tx.change("finish_complete_events", given)
        result = self._complete[0][2]
        if all(row[2] == result for row in self._complete):
            seqs = as_json([row[0] for row in self._complete])
            alike = {"seqs": seqs, "result": result, "now": tx.now}
            tx.change_exactly(n, "finish_complete_alike", alike)
        else:
            tx.change_exactly(n, "finish_complete", given)
        for (lane, kind, attempts), count in self._completed.items():
            tx.move_count(lane, "processing", "complete", count)
            tx.count_outcome(kind, "complete", attempts, count)


def _storable(text: str | None) -> str | None:
    """Return `text` as it can be stored: one odd character must not refuse a whole tick."""
    return text if text is None or text.isascii() else clean(text)


def keep_late_result(tx: Transaction, seq: int, token: int, result: str | None) -> bool:
    """Store a result that came too late, once a token; False where it was there already."""
    parameters = {"job": seq, "token": token, "now": tx.now, "result": result}
    if not tx.change("finish_late", parameters):
        return False
    record_event(tx, seq, EventName.LATE_RESULT)
    tx.count_total("late_results")
    return True
