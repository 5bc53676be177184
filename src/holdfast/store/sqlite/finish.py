"""Record the attempts that a worker reports as finished, if their tokens are still valid."""

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    NewJob,
    Released,
    Retry,
)
from holdfast.jobs.report_rules import TIMED_OUT, target_status
from holdfast.jobs.store_port import Overruled, Refusal, Refused
from holdfast.store.sqlite.attempt_ends import (
    AttemptEnd,
    EndedAttempts,
    RunningJob,
    record_event,
    stored_reason,
)
from holdfast.store.sqlite.completions import Completions
from holdfast.store.sqlite.downstream_records import apply_reports
from holdfast.store.sqlite.transaction import Transaction, as_json
from holdfast.store.text import clean, clean_or_none


@dataclass(slots=True)
class FinishBatch:
    """One tick's reports, sorted by what becomes of their jobs and then written together.

    `jobs` are those that accepted completions bring with them, for the caller to create.
    """

    tx: Transaction
    refused: list[Refused] = field(default_factory=list)
    overruled: list[Overruled] = field(default_factory=list)
    jobs: list[NewJob] = field(default_factory=list)
    _ended: EndedAttempts = field(init=False)
    _completions: Completions = field(init=False)
    _late: list[tuple[RunningJob, str | None]] = field(default_factory=list)
    _reports: list[CallReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ended = EndedAttempts(self.tx)
        self._completions = Completions(self.tx)

    def run(self, finished: Sequence[Finished]) -> None:
        """Record all of `finished`: each is accepted or refused by what its job's row says."""
        if not finished:
            return
        ids = as_json([item.lease.job_id for item in finished])
        found = {row[0]: row for row in self.tx.rows("finish_rows", {"ids": ids})}
        seen: set[int] = set()
        for key, item in enumerate(finished):
            row = RunningJob._make(found[key]) if key in found else None
            if row is None or row.token != item.lease.token or row.seq in seen:
                self._refuse(item, None)
            elif row.status != "processing":
                self._refuse(item, row)
            else:
                seen.add(row.seq)
                if item.report is not None:
                    self._reports.append(item.report)
                self._accept(item, row)
        self._write()

    def _accept(self, item: Finished, row: RunningJob) -> None:
        outcome = item.outcome
        past_deadline = row.deadline_at is not None and self.tx.now > row.deadline_at
        status = target_status(
            outcome,
            past_deadline=past_deadline,
            cancel_requested=bool(row.cancel_requested),
            attempts_left=row.attempt_count < row.max_attempts,
        )
        if past_deadline and status is JobStatus.FAILED:
            self._time_out(item, row)
            return
        match outcome:
            case Completed():
                self._completions.add(item, outcome, row)
                self.jobs += item.jobs
            case Failed(error, dead_letter):
                self._fail(item, row, error, dead_letter)
            case Cancelled():
                self._cancel(item, row)
            case _ if status is JobStatus.CANCELLED:
                self._cancel(item, row)
                self.overruled.append(Overruled(item.lease, status))
            case Retry(_, error) if status is JobStatus.FAILED:
                reason = stored_reason(self.tx, row.kind, DeadLetterReason.ATTEMPTS_EXHAUSTED)
                self._fail(item, row, error, reason)
                self.overruled.append(Overruled(item.lease, status))
            case Retry(after, error, counted):
                self._end(item, row, AttemptOutcome.RETRY, EventName.RETRY, error, after)
                self._requeue(row, after, counted=counted)
            case Released(after):
                self._end(item, row, AttemptOutcome.RELEASED, EventName.RELEASED)
                self._requeue(row, after, counted=False, keep_place=after <= 0)

    def _time_out(self, item: Finished, row: RunningJob) -> None:
        self._end(item, row, AttemptOutcome.TIMEOUT, EventName.FAILED, TIMED_OUT)
        reason = stored_reason(self.tx, row.kind, DeadLetterReason.DEADLINE)
        self._fail_job(row, TIMED_OUT, reason)
        self.tx.count_total("timed_out")
        if isinstance(item.outcome, Completed):
            self._late.append((row, item.outcome.result))
        self.overruled.append(Overruled(item.lease, JobStatus.FAILED))

    def _fail(
        self, item: Finished, row: RunningJob, error: JobError, reason: DeadLetterReason | None
    ) -> None:
        self._end(item, row, AttemptOutcome.FAILED, EventName.FAILED, error)
        self._fail_job(row, error, reason)

    def _fail_job(self, row: RunningJob, error: JobError, reason: DeadLetterReason | None) -> None:
        self._ended.fail(row.seq, row.token, row.lane, row.kind, row.attempt_count, error, reason)

    def _cancel(self, item: Finished, row: RunningJob) -> None:
        self._end(item, row, AttemptOutcome.CANCELLED, EventName.CANCELLED)
        self._ended.cancel(row.seq, row.token, row.lane, row.kind, row.attempt_count)

    def _requeue(
        self, row: RunningJob, after: float, *, counted: bool, keep_place: bool = False
    ) -> None:
        self._ended.requeue(
            row.seq, row.token, row.lane, after, counted=counted, keep_place=keep_place
        )

    def _end(
        self,
        item: Finished,
        row: RunningJob,
        outcome: AttemptOutcome,
        event: EventName,
        error: JobError | None = None,
        retry_after: float | None = None,
    ) -> None:
        code, message = (None, None) if error is None else (error.code, clean(error.message))
        self._ended.ends.append(
            AttemptEnd(
                row.seq,
                outcome,
                event,
                row.duration(item.duration, self.tx.now),
                code,
                message,
                retry_after,
                clean_or_none(item.meta),
                clean_or_none(item.traceback),
            )
        )

    def _refuse(self, item: Finished, row: RunningJob | None) -> None:
        """Refuse a report; `row` is its job if that still has the report's token."""
        timed_out = row is not None and row.error_code == ErrorCode.TIMEOUT
        if row is not None and timed_out and isinstance(item.outcome, Completed):
            self._late.append((row, item.outcome.result))
            self.refused.append(Refused(item.lease, Refusal.LATE))
        else:
            self.refused.append(Refused(item.lease, Refusal.STALE))
            self.tx.count_total("refused_writes")

    def _write(self) -> None:
        tx = self.tx
        self._ended.write()
        self._completions.write()
        for row, result in self._late:
            keep_late_result(tx, row.seq, row.token, result)
        apply_reports(tx, self._reports)


def keep_late_result(tx: Transaction, seq: int, token: int, result: str | None) -> bool:
    """Store a result that came too late, once per token; False if it was stored before."""
    parameters = {"job": seq, "token": token, "now": tx.now, "result": result}
    if not tx.change("finish_late", parameters):
        return False
    record_event(tx, seq, EventName.LATE_RESULT)
    tx.count_total("late_results")
    return True
