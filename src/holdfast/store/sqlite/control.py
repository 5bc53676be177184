"""Requests of people, handlers and heartbeats: cancel, retry, discard, progress, extend."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import EventName, JobError, JobStatus, Lease
from holdfast.jobs.store_port import Change, Extended
from holdfast.store.sqlite import clock_jumps
from holdfast.store.sqlite.attempt_ends import JobFailure, fail, record_event
from holdfast.store.sqlite.enqueue import rule_rows
from holdfast.store.sqlite.transaction import Transaction, as_json


class _JobRow(NamedTuple):
    """A row of `control_row`."""

    seq: int
    status: str
    token: int
    lane: int
    kind: str
    ready: int
    attempt_count: int
    cancel_requested: int
    ready_at: float | None
    error_code: str | None
    error_group: str | None
    dead_letter: str | None
    dedup_key: str | None
    dedup_unfinished: int | None
    dedup_seconds: float | None

    @property
    def dedup_rule(self) -> DedupRule | None:
        """The rule by which it looks for twins, or None for the usual one."""
        if self.dedup_unfinished is None:
            return None
        return DedupRule(bool(self.dedup_unfinished), self.dedup_seconds)

    @property
    def counter(self) -> str:
        """The counter of its lane that counts it."""
        if self.status == JobStatus.QUEUED:
            return "ready" if self.ready else "scheduled"
        return self.status


def _find(tx: Transaction, job_id: str) -> _JobRow | None:
    rows = tx.rows("control_row", {"id": job_id})
    return _JobRow._make(rows[0]) if rows else None


def submit(tx: Transaction, job_id: str) -> Change:
    """Move an uploaded job to queued."""
    row = _find(tx, job_id)
    if row is None:
        return Change.MISSING
    if row.status != JobStatus.UPLOADED:
        return Change.REFUSED
    tx.change_exactly(1, "control_submit", {"seq": row.seq, "now": tx.now})
    record_event(tx, row.seq, EventName.QUEUED)
    due = row.ready_at is None or row.ready_at <= tx.now
    tx.move_count(row.lane, "uploaded", "ready" if due else "scheduled")
    tx.woke = True
    return Change.DONE


def reject(tx: Transaction, job_id: str, error: JobError) -> Change:
    """Move an uploaded job to failed."""
    row = _find(tx, job_id)
    if row is None:
        return Change.MISSING
    if row.status != JobStatus.UPLOADED:
        return Change.REFUSED
    record_event(tx, row.seq, EventName.FAILED, error=error)
    fail(tx, [JobFailure(row.seq, row.token, row.lane, row.kind, row.counter, 0, error, None)])
    return Change.DONE


def cancel(tx: Transaction, job_id: str) -> Change:
    """Cancel a job that is not running, or ask its worker to cancel it."""
    row = _find(tx, job_id)
    if row is None:
        return Change.MISSING
    if row.status == JobStatus.CANCELLED:
        return Change.DONE
    if JobStatus(row.status).finished:
        return Change.REFUSED
    if row.status == JobStatus.PROCESSING:
        if not row.cancel_requested:
            tx.change_exactly(1, "control_request_cancel", {"seq": row.seq})
            tx.change("worker_forget_cancel_requests")
            tx.change("worker_note_cancel_request", {"seq": row.seq})
            record_event(tx, row.seq, EventName.CANCEL_REQUESTED)
        return Change.REQUESTED
    record_event(tx, row.seq, EventName.CANCELLED)
    rows = as_json([[row.seq, row.token]])
    tx.change_exactly(1, "finish_cancelled", {"rows": rows, "now": tx.now})
    tx.move_count(row.lane, row.counter, "cancelled")
    tx.count_outcome(row.kind, "cancelled", row.attempt_count)
    return Change.DONE


def expedite(tx: Transaction, job_id: str) -> Change:
    """Make a scheduled job ready at once."""
    row = _find(tx, job_id)
    if row is None:
        return Change.MISSING
    if row.status != JobStatus.QUEUED:
        return Change.REFUSED
    if row.ready_at is not None and row.ready_at > tx.now:
        tx.change_exactly(1, "control_expedite", {"seq": row.seq, "now": tx.now})
        record_event(tx, row.seq, EventName.EXPEDITED)
        tx.move_count(row.lane, row.counter, "ready")
        tx.woke = True
    return Change.DONE


def retry(tx: Transaction, job_ids: Sequence[str]) -> tuple[Change, ...]:
    """Put failed jobs back in the queue."""
    return tuple(_retry_one(tx, job_id) for job_id in job_ids)


def _retry_one(tx: Transaction, job_id: str) -> Change:
    row = _find(tx, job_id)
    if row is None:
        return Change.MISSING
    if row.status != JobStatus.FAILED:
        return Change.REFUSED
    rules = rule_rows([(job_id, row.kind, row.dedup_key, row.dedup_rule)])
    if rules:
        tx.change("enqueue_release_keys", {"rules": as_json(rules), "now": tx.now})
    key = {"kind": row.kind, "dedup_key": row.dedup_key, "seq": row.seq}
    if tx.rows("control_twin", key):
        return Change.TWIN
    tx.change_exactly(1, "control_retry", {"seq": row.seq, "now": tx.now})
    record_event(tx, row.seq, EventName.MANUAL_RETRY)
    tx.move_count(row.lane, "failed", "ready")
    tx.count_total("manual_retries")
    _leave_dead_letters(tx, row)
    tx.woke = True
    return Change.DONE


def discard(tx: Transaction, job_ids: Sequence[str]) -> int:
    """Take jobs out of the dead letters."""
    discarded = 0
    for job_id in dict.fromkeys(job_ids):
        row = _find(tx, job_id)
        if row is None or row.dead_letter is None:
            continue
        tx.change_exactly(1, "control_discard", {"seq": row.seq})
        record_event(tx, row.seq, EventName.DISCARDED)
        _leave_dead_letters(tx, row)
        discarded += 1
    return discarded


def _leave_dead_letters(tx: Transaction, row: _JobRow) -> None:
    if row.dead_letter is not None:
        assert row.error_code is not None
        assert row.error_group is not None
        tx.count_dead(row.kind, row.error_code, row.error_group, -1)


def progress(
    tx: Transaction, lease: Lease, share: float | None, note: str | None, *, record: bool
) -> bool:
    """Store how far a job is, under its lease."""
    parameters = {"id": lease.job_id, "token": lease.token, "progress": share, "note": note}
    if tx.change("control_progress", parameters) != 1:
        _count_zombies(tx, [lease])
        return False
    if record:
        row = _find(tx, lease.job_id)
        assert row is not None
        meta = as_json({"progress": share, "note": note})
        record_event(tx, row.seq, EventName.PROGRESS, meta=meta)
    return True


def extend(tx: Transaction, leases: Sequence[Lease], lease_seconds: float) -> Extended:
    """Extend all `leases` to `lease_seconds` from now."""
    if not leases:
        return Extended()
    clock_jumps.follow(tx)
    rows = tx.rows(
        "control_extend",
        {
            "leases": _pairs(leases),
            "expires_at": tx.now + lease_seconds,
        },
    )
    kept = {(job_id, token) for job_id, token, _ in rows}
    lost = tuple(lease for lease in leases if (lease.job_id, lease.token) not in kept)
    _count_zombies(tx, lost)
    return Extended(lost, tuple(job_id for job_id, _, asked in rows if asked))


def _count_zombies(tx: Transaction, lost: Sequence[Lease]) -> None:
    """Count the refused writes of attempts that were ended by another than their worker.

    A heartbeat that crosses its own worker's report is refused too, and does not count.
    """
    if lost:
        tx.count_total("refused_writes", tx.value("control_zombies", {"leases": _pairs(lost)}))


def _pairs(leases: Sequence[Lease]) -> str:
    return as_json([[lease.job_id, lease.token] for lease in leases])
