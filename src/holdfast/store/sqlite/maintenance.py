"""Maintenance: leadership, rescue, deadlines and retention, each on a bounded number of jobs."""

from collections.abc import Sequence
from operator import itemgetter

from holdfast.jobs.model import (
    AttemptOutcome,
    DeadLetterReason,
    EventName,
    JobError,
    JobStatus,
)
from holdfast.jobs.report_rules import LEASE_LOST, TIMED_OUT, rescue_delay, rescued_status
from holdfast.jobs.store_port import Deleted, FailedJob, Leadership, Rescued, RetentionRule
from holdfast.store.sqlite import clock_jumps, downstream_records, workers
from holdfast.store.sqlite.attempt_ends import AttemptEnd, EndedAttempts, stored_reason, time_out
from holdfast.store.sqlite.finish import keep_late_result
from holdfast.store.sqlite.transaction import Row, Transaction, as_json


def lead(tx: Transaction, name: str, holder: str, seconds: float) -> Leadership | None:
    """Become or stay the leader."""
    clock_jumps.follow(tx)
    expires_at = tx.now + seconds
    leader = tx.value("maintain_leader", {"name": name, "now": tx.now})
    if leader is not None and leader != holder and workers.is_dead(tx, leader):
        resign(tx, name, leader)
    rows = tx.rows(
        "maintain_lead", {"name": name, "holder": holder, "expires_at": expires_at, "now": tx.now}
    )
    return Leadership(name, holder, rows[0][0], expires_at) if rows else None


def resign(tx: Transaction, name: str, holder: str) -> bool:
    """Release the leadership."""
    return tx.change("maintain_resign", {"name": name, "holder": holder}) == 1


def rescue(tx: Transaction, limit: int) -> Rescued:
    """Requeue, fail or cancel jobs whose leases have expired or whose workers are dead."""
    clock_jumps.follow(tx)
    dead = workers.dead_workers(tx)
    requeued: list[str] = []
    failed: list[str] = []
    cancelled: list[str] = []
    jobs: list[FailedJob] = []
    ended, place = EndedAttempts(tx), 0
    for row in _lost(tx, dead, limit):
        seq, job_id, token, lane, kind, attempts, most, started_at, cancel_requested, owner = row
        reason = stored_reason(tx, kind, DeadLetterReason.LEASE_LOST)
        jobs.append(FailedJob(job_id, kind, attempts, most, owner, reason is not None))
        status = rescued_status(
            cancel_requested=bool(cancel_requested), attempts_left=attempts < most
        )
        if status is JobStatus.CANCELLED:
            event = EventName.CANCELLED
            cancelled.append(job_id)
            ended.cancel(seq, token, lane, kind, attempts)
        elif status is JobStatus.FAILED:
            event = EventName.FAILED
            failed.append(job_id)
            ended.fail(seq, token, lane, kind, attempts, LEASE_LOST, reason)
        else:
            event = EventName.LEASE_LOST
            requeued.append(job_id)
            ended.requeue(seq, token, lane, rescue_delay(attempts, place), lost_worker=True)
            place += attempts > 1
        ended.ends.append(_ended(tx, seq, AttemptOutcome.LEASE_LOST, event, started_at, LEASE_LOST))
    ended.write()
    tx.count_total("rescued", len(ended.ends))
    workers.forget(tx, dead)
    workers.forget_unseen(tx)
    return Rescued(tuple(requeued), tuple(failed), tuple(cancelled), tuple(jobs))


def _lost(tx: Transaction, dead: list[str], limit: int) -> list[Row]:
    """Return jobs of dead workers and jobs whose leases have expired, each once, oldest first."""
    found: list[Row] = []
    if dead:
        parameters = {"workers": as_json(dead), "now": tx.now, "limit": limit}
        found = tx.rows("maintain_leases_of_dead", parameters)
    taken = {row[0] for row in found}
    expired = tx.rows("maintain_expired_leases", {"now": tx.now, "limit": limit})
    rows = [*found, *(row for row in expired if row[0] not in taken)][:limit]
    return sorted(rows, key=itemgetter(0))


def expire_deadlines(tx: Transaction, limit: int) -> tuple[FailedJob, ...]:
    """Fail unfinished jobs past their deadline."""
    jobs = []
    ended = EndedAttempts(tx)
    for row in tx.rows("maintain_past_deadline", {"now": tx.now, "limit": limit}):
        seq, job_id, token, lane, kind, status, ready, attempts, started_at, most, owner = row
        reason = stored_reason(tx, kind, DeadLetterReason.DEADLINE)
        jobs.append(FailedJob(job_id, kind, attempts, most, owner, reason is not None))
        if status == JobStatus.PROCESSING:
            ended.fail(seq, token, lane, kind, attempts, TIMED_OUT, reason)
            ended.ends.append(
                _ended(tx, seq, AttemptOutcome.TIMEOUT, EventName.FAILED, started_at, TIMED_OUT)
            )
            continue
        counter = status
        if status == JobStatus.QUEUED:
            counter = "ready" if ready else "scheduled"
        time_out(tx, seq, token, lane, kind, counter, attempts)
    ended.write()
    tx.count_total("timed_out", len(ended.ends))
    return tuple(jobs)


def _ended(
    tx: Transaction,
    seq: int,
    outcome: AttemptOutcome,
    event: EventName,
    started_at: float,
    error: JobError,
) -> AttemptEnd:
    """Return the end of an attempt that was not reported by its worker."""
    return AttemptEnd(seq, outcome, event, max(0.0, tx.now - started_at), error.code, error.message)


def store_late_result(tx: Transaction, job_id: str, token: int, result: str | None) -> bool:
    """Keep a result that came after `TIMEOUT`."""
    seq = tx.value("maintain_late", {"id": job_id, "token": token})
    return seq is not None and keep_late_result(tx, seq, token, result)


def delete_finished(tx: Transaction, rule: RetentionRule, limit: int) -> tuple[Deleted, ...]:
    """Delete the oldest finished jobs that `rule` no longer keeps, with their history."""
    return _delete(tx, _expired(tx, rule, limit))


def delete_of_ids(tx: Transaction, job_ids: Sequence[str]) -> tuple[Deleted, ...]:
    """Delete the finished jobs among `job_ids`, with their history."""
    return _delete(tx, tx.rows("maintain_finished_of_ids", {"ids": as_json(list(job_ids))}))


def _delete(tx: Transaction, finished: Sequence[Row]) -> tuple[Deleted, ...]:
    """Delete jobs, rows of `deleted_columns`, with their history."""
    if not finished:
        return ()
    seqs = {"seqs": as_json([row[0] for row in finished])}
    for query in (
        "maintain_delete_arguments", "maintain_delete_events", "maintain_delete_late_results",
    ):  # fmt: skip
        tx.change(query, seqs)
    tx.change_exactly(len(finished), "maintain_delete_jobs", seqs)
    deleted = []
    for _, _, job_id, lane, kind, status, owner, meta, result, code, group, dead_letter in finished:
        tx.move_count(lane, status, None)
        if dead_letter is not None:
            tx.count_dead(kind, code, group, -1)
        deleted.append(Deleted(job_id, kind, JobStatus(status), owner, meta, result))
    tx.count_total("deleted", len(deleted))
    tx.flush()
    downstream_records.note_last_use(tx, [(row[3], row[1]) for row in finished])
    tx.change("maintain_delete_lanes", {"lanes": as_json(sorted({row[3] for row in finished}))})
    return tuple(deleted)


def _expired(tx: Transaction, rule: RetentionRule, limit: int) -> list[Row]:
    if not rule.status.finished:
        raise ValueError(f"only finished jobs can be deleted, not {rule.status} ones")
    excess = 0
    if rule.max_count is not None:
        counts = tx.rows("maintain_count_of_kind", {"kind": rule.kind})[0]
        present = dict(zip(("complete", "failed", "cancelled"), counts, strict=True))
        excess = present[rule.status] - rule.max_count
    finished_before = None if rule.max_age is None else tx.now - rule.max_age
    rows = tx.rows(
        "maintain_oldest_finished", {"kind": rule.kind, "status": rule.status, "limit": limit}
    )
    return [
        row
        for number, row in enumerate(rows)
        if number < excess or (finished_before is not None and row[1] <= finished_before)
    ]
