"""The chores of maintenance, each on a bounded number of jobs."""

from typing import Any

from holdfast.jobs.model import (
    AttemptOutcome,
    DeadLetterReason,
    EventName,
    JobStatus,
)
from holdfast.jobs.ports import Deleted, Leadership, Rescued, RetentionRule
from holdfast.store.sqlite.ends import (
    LEASE_LOST,
    TIMED_OUT,
    End,
    Fall,
    fail,
    record_ends,
    time_out,
)
from holdfast.store.sqlite.finish import keep_late_result
from holdfast.store.sqlite.transaction import Row, Transaction, as_json


def lead(tx: Transaction, name: str, holder: str, seconds: float) -> Leadership | None:
    """Become or stay the leader."""
    expires_at = tx.now + seconds
    rows = tx.rows(
        "maintain_lead", {"name": name, "holder": holder, "expires_at": expires_at, "now": tx.now}
    )
    return Leadership(name, holder, rows[0][0], expires_at) if rows else None


def resign(tx: Transaction, name: str, holder: str) -> bool:
    """Give the leadership up."""
    return tx.change("maintain_resign", {"name": name, "holder": holder}) == 1


def rescue(tx: Transaction, limit: int) -> Rescued:
    """Take back jobs whose leases have run out."""
    requeued: list[str] = []
    dead: list[str] = []
    cancelled: list[str] = []
    ends: list[End] = []
    falls: list[Fall] = []
    requeue_rows: list[list[Any]] = []
    cancel_rows: list[list[Any]] = []
    for row in tx.rows("maintain_expired_leases", {"now": tx.now, "limit": limit}):
        seq, job_id, token, lane, kind, attempts, most, started_at, cancel_requested = row
        event = EventName.LEASE_LOST
        if cancel_requested:
            event = EventName.CANCELLED
            cancelled.append(job_id)
            cancel_rows.append([seq, token])
            tx.move_count(lane, "processing", "cancelled")
            tx.count_outcome(kind, "cancelled", attempts)
        elif attempts >= most:
            event = EventName.FAILED
            dead.append(job_id)
            falls.append(
                Fall(
                    seq,
                    token,
                    lane,
                    kind,
                    "processing",
                    attempts,
                    LEASE_LOST,
                    DeadLetterReason.LEASE_LOST,
                )
            )
        else:
            requeued.append(job_id)
            requeue_rows.append([seq, token, 0, 0, 0])
            tx.move_count(lane, "processing", "ready")
            tx.woke = True
        duration = max(0.0, tx.now - started_at)
        ends.append(
            End(
                seq, AttemptOutcome.LEASE_LOST, event, duration, LEASE_LOST.code, LEASE_LOST.message
            )
        )
    record_ends(tx, ends)
    for query, rows in (("finish_requeue", requeue_rows), ("finish_cancelled", cancel_rows)):
        if rows:
            tx.change_exactly(len(rows), query, {"rows": as_json(rows), "now": tx.now})
    fail(tx, falls)
    tx.count_total("rescued", len(ends))
    return Rescued(tuple(requeued), tuple(dead), tuple(cancelled))


def expire_deadlines(tx: Transaction, limit: int) -> tuple[str, ...]:
    """Fail unfinished jobs past their deadline."""
    ids = []
    for row in tx.rows("maintain_past_deadline", {"now": tx.now, "limit": limit}):
        seq, job_id, token, lane, kind, status, ready, attempts, started_at = row
        ids.append(job_id)
        if status == JobStatus.PROCESSING:
            duration = max(0.0, tx.now - started_at)
            end = End(
                seq,
                AttemptOutcome.TIMEOUT,
                EventName.FAILED,
                duration,
                TIMED_OUT.code,
                TIMED_OUT.message,
            )
            record_ends(tx, [end])
            fail(
                tx,
                [
                    Fall(
                        seq,
                        token,
                        lane,
                        kind,
                        "processing",
                        attempts,
                        TIMED_OUT,
                        DeadLetterReason.DEADLINE,
                    )
                ],
            )
            tx.count_total("timed_out")
            continue
        place = status
        if status == JobStatus.QUEUED:
            place = "ready" if ready else "scheduled"
        time_out(tx, seq, token, lane, kind, place, attempts)
    return tuple(ids)


def store_late_result(tx: Transaction, job_id: str, token: int, result: str | None) -> bool:
    """Keep a result that came after `TIMEOUT`."""
    seq = tx.value("maintain_late", {"id": job_id, "token": token})
    return seq is not None and keep_late_result(tx, seq, token, result)


def delete_finished(tx: Transaction, rule: RetentionRule, limit: int) -> tuple[Deleted, ...]:
    """Delete the oldest finished jobs that `rule` lets go, with their history."""
    going = _going(tx, rule, limit)
    if not going:
        return ()
    seqs = {"seqs": as_json([row[0] for row in going])}
    for history in ("arguments", "events", "late_results"):
        tx.change(f"maintain_delete_{history}", seqs)
    tx.change_exactly(len(going), "maintain_delete_jobs", seqs)
    deleted = []
    for _, _, job_id, lane, owner, meta, result, code, group, dead_letter in going:
        tx.move_count(lane, rule.status, None)
        if dead_letter is not None:
            tx.count_dead(rule.kind, code, group, -1)
        deleted.append(Deleted(job_id, rule.kind, rule.status, owner, meta, result))
    tx.count_total("deleted", len(deleted))
    return tuple(deleted)


def _going(tx: Transaction, rule: RetentionRule, limit: int) -> list[Row]:
    if not rule.status.finished:
        raise ValueError(f"only finished jobs can be deleted, not {rule.status} ones")
    excess = 0
    if rule.max_count is not None:
        counts = tx.rows("maintain_count_of_kind", {"kind": rule.kind})[0]
        present = dict(zip(("complete", "failed", "cancelled"), counts, strict=True))
        excess = present[rule.status] - rule.max_count
    born_before = None if rule.max_age is None else tx.now - rule.max_age
    rows = tx.rows(
        "maintain_oldest_finished", {"kind": rule.kind, "status": rule.status, "limit": limit}
    )
    return [
        row
        for place, row in enumerate(rows)
        if place < excess or (born_before is not None and row[1] <= born_before)
    ]
