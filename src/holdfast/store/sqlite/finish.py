"""Record what a worker finished: compare, set, and keep the history."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import CallReport
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
from holdfast.jobs.store_port import Overruled, Refusal, Refused
from holdfast.store.sqlite.completions import Completions
from holdfast.store.sqlite.downstreams import apply_reports
from holdfast.store.sqlite.ends import TIMED_OUT, End, Leaving, record_event
from holdfast.store.sqlite.transaction import Claimed, Transaction, as_json
from holdfast.store.text import clean, clean_or_none


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
    worker_id: str
    last_attempt_at: float
    deadline_at: float | None
    cancel_requested: int
    error_code: str | None

    @property
    def claimed(self) -> Claimed:
        """What a claim would have remembered of it."""
        return (
            self.seq,
            self.token,
            self.lane,
            self.kind,
            self.attempt_count,
            self.worker_id,
            self.last_attempt_at,
        )


@dataclass(slots=True)
class FinishWork:
    """One tick's reports, sorted by what becomes of their jobs and then written together."""

    tx: Transaction
    refused: list[Refused] = field(default_factory=list)
    overruled: list[Overruled] = field(default_factory=list)
    _leaving: Leaving = field(init=False)
    _completions: Completions = field(init=False)
    _late: list[tuple[_Running, str | None]] = field(default_factory=list)
    _reports: dict[int, CallReport] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._leaving = Leaving(self.tx)
        self._completions = Completions(self.tx)

    def run(self, finished: Sequence[Finished]) -> None:
        """Record all of `finished`.

        Raises:
            Misremembered: some job is not as it was remembered.
        """
        completions, forget = self._completions, self.tx.claimed.pop
        unknown = []
        for place, item in enumerate(finished):
            lease, outcome = item.lease, item.outcome
            known = forget(lease.job_id, None)
            # Nearly all reports are of this kind, and nothing has to be read for them.
            if known is not None and known[1] == lease.token and isinstance(outcome, Completed):
                if item.report is not None:
                    self._reports[place] = item.report
                completions.add(item, outcome, known)
            else:
                unknown.append((place, item))
        completions.from_memory = len(unknown) < len(finished)
        if unknown:
            self._look_up(unknown)
        if finished:
            self._write()

    def _look_up(self, finished: Sequence[tuple[int, Finished]]) -> None:
        """Accept or refuse reports, each with its place in the tick, by what their rows say."""
        ids = as_json([item.lease.job_id for _, item in finished])
        found = {row[0]: row for row in self.tx.rows("finish_rows", {"ids": ids})}
        seen = self._completions.seqs
        for key, (place, item) in enumerate(finished):
            row = _Running._make(found[key]) if key in found else None
            if row is None or row.token != item.lease.token or row.seq in seen:
                self._refuse(item, None)
            elif row.status != "processing":
                self._refuse(item, row)
            else:
                seen.add(row.seq)
                if item.report is not None:
                    self._reports[place] = item.report
                self._accept(item, row)

    def _accept(self, item: Finished, row: _Running) -> None:
        outcome = item.outcome
        past_deadline = row.deadline_at is not None and self.tx.now > row.deadline_at
        if past_deadline and not isinstance(outcome, Cancelled):
            self._time_out(item, row)
            return
        match outcome:
            case Completed():
                self._completions.add(item, outcome, row.claimed)
            case Failed(error, dead_letter):
                self._fail(item, row, error, dead_letter)
            case Cancelled():
                self._cancel(item, row)
            case Retry() | Released() if row.cancel_requested:
                self._cancel(item, row)
                self.overruled.append(Overruled(item.lease, JobStatus.CANCELLED))
            case Retry(_, error, True) if row.attempt_count >= row.max_attempts:
                self._fail(item, row, error, DeadLetterReason.ATTEMPTS_EXHAUSTED)
                self.overruled.append(Overruled(item.lease, JobStatus.FAILED))
            case Retry(after, error, counted):
                self._end(item, row, AttemptOutcome.RETRY, EventName.RETRY, error, after)
                self._put_back(row, after, given_back=not counted)
            case Released(after):
                self._end(item, row, AttemptOutcome.RELEASED, EventName.RELEASED)
                self._put_back(row, after, given_back=True, in_its_place=after <= 0)

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
        self._leaving.fall(row.seq, row.token, row.lane, row.kind, row.attempt_count, error, reason)

    def _cancel(self, item: Finished, row: _Running) -> None:
        self._end(item, row, AttemptOutcome.CANCELLED, EventName.CANCELLED)
        self._leaving.cancel(row.seq, row.token, row.lane, row.kind, row.attempt_count)

    def _put_back(
        self, row: _Running, after: float, *, given_back: bool, in_its_place: bool = False
    ) -> None:
        self._leaving.put_back(
            row.seq, row.token, row.lane, after, given_back=given_back, in_its_place=in_its_place
        )

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
        self._leaving.ends.append(
            End(
                row.seq,
                outcome,
                event,
                duration,
                code,
                message,
                retry_after,
                clean_or_none(item.meta),
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
        self._leaving.write()
        self._completions.write()
        for row, result in self._late:
            keep_late_result(tx, row.seq, row.token, result)
        # A streak of failures is one in the order of the calls.
        apply_reports(tx, [report for _, report in sorted(self._reports.items())])


def keep_late_result(tx: Transaction, seq: int, token: int, result: str | None) -> bool:
    """Store a result that came too late, once a token; False where it was there already."""
    parameters = {"job": seq, "token": token, "now": tx.now, "result": result}
    if not tx.change("finish_late", parameters):
        return False
    record_event(tx, seq, EventName.LATE_RESULT)
    tx.count_total("late_results")
    return True
