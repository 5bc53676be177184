"""What a worker logs by itself: its start and end, failed attempts, moves of breakers.

Nothing is formatted for an attempt that succeeds.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

from holdfast.events import Listener, notify
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.failure_log import log_dead_letter, log_failure, log_final_failure, log_retry
from holdfast.jobs.job_events import WorkerStarted, WorkerStopped
from holdfast.jobs.model import (
    DeadLetterReason,
    Failed,
    JobError,
    JobStatus,
    Lease,
    Retry,
)
from holdfast.jobs.report_rules import TIMED_OUT
from holdfast.jobs.store_port import FailedJob, Store, TickResult
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.run import Run
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.error_attributes import UNREADABLE

_log = logging.getLogger("holdfast.worker")


def worker_started(
    worker_id: str,
    kinds: Mapping[str, JobKind],
    queues: Sequence[str],
    options: WorkerOptions,
    store: Store,
    listeners: Sequence[Listener],
) -> None:
    """Log that a worker starts, and notify its listeners."""
    apps = sorted({kind.app for kind in kinds.values()})
    _log.info(
        "worker %s started: apps %s; queues %s; concurrency %d; %s",
        worker_id, ", ".join(apps) or "none", ", ".join(queues) or "none", options.concurrency,
        store.address,
    )  # fmt: skip
    notify(listeners, WorkerStarted(worker_id, options.concurrency))


def worker_stopped(worker_id: str, unreported: int, listeners: Sequence[Listener]) -> None:
    """Log that a worker has stopped and left attempts to their leases; notify its listeners."""
    if unreported:
        _log.error(
            "%s: %d finished attempts could not be reported; they run again, at the latest when "
            "their leases have expired", worker_id, unreported,
        )  # fmt: skip
    _log.info("worker %s stopped", worker_id)
    notify(listeners, WorkerStopped(worker_id, unreported))


def log_results(runs: Iterable[Run], result: TickResult, *, whole: bool) -> None:
    """Log what became of the reports of `runs`, and the other moves of the tick.

    Args:
        runs: those whose reports the tick carried.
        whole: give the exception of a dead letter to the log's handlers.
    """
    failed = [run for run in runs if run.failure is not None]
    if failed or result.overruled:
        _log_attempts(runs, failed, result, whole=whole)
    for job in result.timed_out:
        log_final_failure(_log, job, TIMED_OUT, DeadLetterReason.DEADLINE)
    for record in result.moved:
        _log_circuit(record, result.now)


def _log_attempts(
    runs: Iterable[Run], failed: Iterable[Run], result: TickResult, *, whole: bool
) -> None:
    refused = {_key(each.lease) for each in result.refused}
    overruled = {_key(each.lease): each.status for each in result.overruled}
    noted = [*failed, *(run for run in runs if run.failure is None and _key_of(run) in overruled)]
    for run in noted:
        key = _key_of(run)
        if key in refused:
            continue
        # A handler that formats a foreign exception may raise; the report is stored all the same.
        with contextlib.suppress(*UNREADABLE):
            _log_attempt(run, overruled.get(key), result.now, whole=whole)


def final_error(
    run: Run, overruled: JobStatus | None, now: float
) -> tuple[JobError, DeadLetterReason | None] | None:
    """Return with what error the job of `run` failed for good, and why; None if it did not.

    `overruled` is the status that the store gave the job instead of the outcome's.
    """
    assert run.report is not None
    claim, outcome = run.claim, run.report.outcome
    failed = overruled is JobStatus.FAILED
    if failed and claim.deadline_at is not None and now > claim.deadline_at:
        return TIMED_OUT, DeadLetterReason.DEADLINE if run.kind.dead_letters else None
    if isinstance(outcome, Failed):
        return outcome.error, outcome.dead_letter
    if isinstance(outcome, Retry) and failed:
        return outcome.error, DeadLetterReason.ATTEMPTS_EXHAUSTED if run.kind.dead_letters else None
    return None


def _log_attempt(run: Run, overruled: JobStatus | None, now: float, *, whole: bool) -> None:
    """Log a failed attempt; `overruled` is the status that the store gave its job instead."""
    assert run.report is not None
    claim, outcome = run.claim, run.report.outcome
    final = final_error(run, overruled, now)
    job = FailedJob(claim.job_id, run.kind.name, claim.attempt, claim.max_attempts, claim.owner)
    if final is not None:
        error, reason = final
        if reason is None:
            log_failure(_log, job, error)
            return
        log_dead_letter(
            _log, job, error, reason,
            traceback=run.report.traceback,
            # Without a text the exception cannot be formatted, or there is nothing to format.
            exception=run.error if whole and run.report.traceback else None,
        )  # fmt: skip
    elif isinstance(outcome, Retry) and overruled is None and outcome.counted:
        # One that does not count is in the log already, once for all jobs like it.
        log_retry(_log, job, outcome.error, now + outcome.after)


def _log_circuit(record: DownstreamRecord, now: float) -> None:
    state, cause = record.state_at(now), record.circuit.cause
    level = logging.INFO if state is CircuitState.HALF_OPEN else logging.WARNING
    why = "" if cause is None else f" ({cause})"
    _log.log(level, "downstream %s: the breaker is now %s%s", record.name, state, why)


def _key_of(run: Run) -> tuple[str, int]:
    return _key(run.claim.lease)


def _key(lease: Lease) -> tuple[str, int]:
    return lease.job_id, lease.token
