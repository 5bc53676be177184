"""Send reports and claims to the store in one tick, and notify listeners of the results."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from holdfast.errors import ErrorCode
from holdfast.events import Listener, notify
from holdfast.jobs.error_text import one_line
from holdfast.jobs.job_events import (
    AttemptFinished,
    CircuitMoved,
    JobClaimed,
    JobOverruled,
    JobsTimedOut,
    TickListener,
    TickStored,
    WriteRefused,
)
from holdfast.jobs.model import (
    AttemptOutcome,
    Cancelled,
    Completed,
    DeadLetterReason,
    Failed,
    Finished,
    JobError,
    Lease,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import (
    ClaimRequest,
    Refused,
    Store,
    StoreBusy,
    StoreClosed,
    StoreDiskError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
    TickResult,
)
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.run import Run
from holdfast.jobs.worker.traceback_text import Tracebacks
from holdfast.jobs.worker.worker_log import final_error, log_results

_log = logging.getLogger("holdfast.worker")


_TRIES = 3
"""Ticks that may fail in a row, as in an outage, before a report is suspected."""
_ANSWERS = 2
"""Times in a row that the store must take a small write after such a tick. Once is no sign: an
outage may end between the two."""


class Reporter:
    """Tick a store on behalf of one worker."""

    def __init__(
        self,
        store: Store,
        worker_id: str,
        listeners: Sequence[Listener],
        options: WorkerOptions,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._listeners = listeners
        takes_ticks = [each for each in listeners if isinstance(each, TickListener)]
        self._of_ticks = tuple(each.tick_stored for each in takes_ticks)
        self._of_attempts = tuple(each for each in listeners if each not in takes_ticks)
        self._tracebacks = Tracebacks(options.tracebacks)
        self._failed = 0
        self._answered = 0

    async def tick(self, runs: Sequence[Run], request: ClaimRequest | None) -> TickResult:
        """Report `runs` and claim by `request`.

        Raises:
            StoreError: it is unknown whether anything was written; send the same reports again.
        """
        failed = [run for run in runs if run.failure is not None]
        self._add_tracebacks(failed)
        finished = [run.report for run in runs if run.report is not None]
        try:
            result = await self._store.tick(self._worker_id, finished, request)
        except asyncio.CancelledError:
            _mark_resent(runs)
            raise
        except Exception as error:
            if isinstance(error, StoreError):
                _mark_resent(runs)
            if not finished or not await self._may_be_a_report(error, runs[0]):
                raise
            _log.exception(
                "%s: a batch of reports was not accepted; trying one by one", self._worker_id
            )
            try:
                taken, answers = await self._report_singly(runs)
                result = await self._store.tick(self._worker_id, (), request)
            except (StoreError, asyncio.CancelledError):
                _mark_resent(runs)
                raise
            result, runs = _together(answers, result), taken
        self._failed = self._answered = 0
        if result.refused:
            self._note_refusals(runs, result.refused)
        log_results(runs, result, whole=self._tracebacks.whole)
        if self._listeners:
            self._notify(runs, result)
        for run in failed:
            run.error = None  # its frames hold the run: a reference cycle
        return result

    def committed(self, run: Run, report: Finished, result: TickResult) -> None:
        """Notify of a completion that was committed with the handler's own transaction."""
        log_results((), result, whole=False)
        notify(self._of_attempts, _finished(run, report, result.now))
        notify(self._of_ticks, TickStored(self._worker_id, (), ((run.kind.name, report),), ()))
        self._notify_moves(result)

    def _add_tracebacks(self, failed: Sequence[Run]) -> None:
        for run in failed:
            assert run.report is not None
            assert run.failure is not None
            if run.report.traceback is None:
                text = self._tracebacks.text_of(run.error, run.failure.traceback)
                run.report = structs.replace(run.report, traceback=text)

    async def _may_be_a_report(self, error: Exception, run: Run) -> bool:
        """Say whether a report may be why a tick failed; `run` is one that it reported.

        A report that the store cannot take, such as one that needs more memory than the server
        has, may look like an outage. It is suspected when ticks with reports fail again and again
        while the store takes a small write. On a full or failing disk a small write may succeed as
        well, and no report is to blame.
        """
        if isinstance(error, StoreClosed | StoreUnusable):
            return False
        if isinstance(error, StoreBusy | StoreDiskError | StoreFull):
            return False
        if not isinstance(error, StoreUnavailable):
            return True
        self._failed += 1
        if self._failed < _TRIES:
            return False
        self._answered = self._answered + 1 if await self._store_takes_writes(run) else 0
        return self._answered >= _ANSWERS

    async def _store_takes_writes(self, run: Run) -> bool:
        try:
            # To read would not do: a standby or a file that another process has locked is readable.
            await self._store.progress(run.claim.lease, None)
        except StoreError:
            return False
        return True

    async def _report_singly(self, runs: Sequence[Run]) -> tuple[list[Run], list[TickResult]]:
        """Report one by one, so that a report that cannot be stored does not block the others.

        Return the runs whose reports were stored as they were, and the results.
        """
        taken: list[Run] = []
        answers: list[TickResult] = []
        for run in runs:
            if run.report is None:
                continue
            try:
                answers.append(await self._report_one(run, run.report))
            except (StoreUnavailable, StoreClosed, StoreUnusable) as error:
                if self._failed < _TRIES or not await self._may_be_a_report(error, run):
                    raise
                await self._report_unstorable(run, error)
            except Exception as error:
                await self._report_unstorable(run, error)
            else:
                taken.append(run)
        return taken, answers

    async def _report_one(self, run: Run, report: Finished) -> TickResult:
        """Report one attempt; once more where a suspected report meets what may be an outage."""
        try:
            return await self._store.tick(self._worker_id, (report,))
        except StoreUnavailable:
            if self._failed < _TRIES or not await self._store_takes_writes(run):
                raise
        return await self._store.tick(self._worker_id, (report,))

    async def _report_unstorable(self, run: Run, error: Exception) -> None:
        _log.error("%r: its report cannot be stored: %s", run, one_line(error))
        problem = JobError(ErrorCode.UNKNOWN, "what the attempt reported cannot be stored")
        outcome = Failed(problem, DeadLetterReason.PERMANENT)
        assert run.report is not None
        try:
            await self._store.tick(self._worker_id, (Finished(run.report.lease, outcome),))
        except (StoreUnavailable, StoreClosed, StoreUnusable):
            raise
        except Exception:
            _log.exception("%r: not reported; it runs again after its lease expires", run)

    # -- results -------------------------------------------------------------------------------

    def _note_refusals(self, runs: Sequence[Run], refused: Sequence[Refused]) -> None:
        by_lease = _by_lease(runs)
        for refusal in refused:
            run = by_lease.get(_key(refusal.lease))
            if run is not None and run.resent:
                _log.info("%r: a repeated report was refused (%s)", run, refusal.reason)
            else:
                _log.warning(
                    "a report on job %s under token %d was refused: %s",
                    refusal.lease.job_id,
                    refusal.lease.token,
                    refusal.reason,
                )

    def _notify(self, runs: Sequence[Run], result: TickResult) -> None:
        listeners = self._listeners
        if self._of_attempts or result.refused or result.overruled:
            runs = self._notify_of_reports(runs, result)
        if self._of_ticks:
            notify(self._of_ticks, _stored(self._worker_id, runs, result))
        self._notify_moves(result)
        if result.timed_out:
            notify(listeners, JobsTimedOut("claim", tuple(job.job_id for job in result.timed_out)))
        for claim in result.claims if self._of_attempts else ():
            waited = max(0.0, claim.started_at - claim.created_at)
            notify(self._of_attempts, JobClaimed(claim.kind, claim.job_id, claim.attempt, waited))

    def _notify_of_reports(self, runs: Sequence[Run], result: TickResult) -> Sequence[Run]:
        """Notify of reports one by one; return the runs whose reports were accepted."""
        listeners = self._listeners
        by_lease = _by_lease(runs)
        for refusal in result.refused:
            run = by_lease.pop(_key(refusal.lease), None)
            lease, kind = refusal.lease, run.kind.name if run is not None else ""
            notify(listeners, WriteRefused(kind, lease.job_id, lease.token, refusal.reason))
        for run in by_lease.values() if self._of_attempts else ():
            assert run.report is not None
            notify(self._of_attempts, _finished(run, run.report, result.now))
        for overruled in result.overruled:
            run = by_lease.get(_key(overruled.lease))
            kind = run.kind.name if run is not None else ""
            notify(listeners, JobOverruled(kind, overruled.lease.job_id, overruled.status))
        return tuple(by_lease.values())

    def _notify_moves(self, result: TickResult) -> None:
        for record in result.moved:
            cause = record.circuit.cause
            state = str(record.state_at(result.now))
            moved = CircuitMoved(record.name, state, None if cause is None else str(cause))
            notify(self._listeners, moved)


def _mark_resent(runs: Sequence[Run]) -> None:
    """Note that the store may have these reports already, and will then refuse them."""
    for run in runs:
        run.resent = True


def _together(answers: Sequence[TickResult], last: TickResult) -> TickResult:
    """Return `last` together with the results of the single reports in `answers`."""
    every = (*answers, last)
    return replace(
        last,
        refused=tuple(each for answer in every for each in answer.refused),
        overruled=tuple(each for answer in every for each in answer.overruled),
        moved=tuple(each for answer in every for each in answer.moved),
    )


def _by_lease(runs: Sequence[Run]) -> dict[tuple[str, int], Run]:
    return {_key_of(run): run for run in runs if run.report is not None}


def _key_of(run: Run) -> tuple[str, int]:
    return _key(run.claim.lease)


def _key(lease: Lease) -> tuple[str, int]:
    return lease.job_id, lease.token


def _stored(worker_id: str, runs: Sequence[Run], result: TickResult) -> TickStored:
    reports = [(run.kind.name, run.report) for run in runs if run.report is not None]
    overruled = {_key(each.lease): each.status for each in result.overruled}
    failed = [run for run in runs if run.failure is not None]
    if overruled:
        failed += [run for run in runs if run.failure is None and _key_of(run) in overruled]
    finals = [final_error(run, overruled.get(_key_of(run)), result.now) for run in failed]
    # Those of kinds without dead letters are no matter for operators.
    codes = [str(final[0].code) for final in finals if final is not None and final[1] is not None]
    return TickStored(worker_id, result.claims, reports, codes)


def _finished(run: Run, report: Finished, now: float) -> AttemptFinished:
    claim = run.claim
    outcome, error = _named(report.outcome)
    return AttemptFinished(
        run.kind.name, claim.job_id, claim.attempt, outcome, report.duration or 0.0,
        code=None if error is None else error.code,
        message=None if error is None else error.message,
        max_attempts=claim.max_attempts,
        retry_at=now + report.outcome.after if isinstance(report.outcome, Retry) else None,
        error=None if error is None else run.error,
    )  # fmt: skip


def _named(outcome: Outcome) -> tuple[AttemptOutcome, JobError | None]:
    if isinstance(outcome, Completed):
        return AttemptOutcome.COMPLETE, None
    if isinstance(outcome, Released):
        return AttemptOutcome.RELEASED, None
    if isinstance(outcome, Cancelled):
        return AttemptOutcome.CANCELLED, None
    if isinstance(outcome, Failed):
        return AttemptOutcome.FAILED, outcome.error
    return AttemptOutcome.RETRY, outcome.error
