"""Keep the durable records of downstreams, and mark the lanes of those that are held."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from holdfast.jobs.downstreams.record import (
    UNUSED_FOR,
    USE_NOTED_EVERY,
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    TrialRetry,
    by_downstream,
    judge,
)
from holdfast.jobs.downstreams.record_columns import declared_again, dump_downstream
from holdfast.jobs.model import EventName
from holdfast.store.row_mapping import record_from
from holdfast.store.sqlite.attempt_ends import record_event
from holdfast.store.sqlite.transaction import Transaction, as_json


def load(tx: Transaction, name: str) -> DownstreamRecord | None:
    """Return the record of `name`, or None if it was never declared."""
    rows = tx.rows("downstream_get", {"name": name})
    return record_from(rows[0]) if rows else None


def save(tx: Transaction, record: DownstreamRecord) -> DownstreamRecord | None:
    """Store `record` where its version is still the stored one; return it as stored, else None.

    With a closed breaker the jobs that wait after failed trials become ready, or wait only as long
    as the downstream asked for.
    """
    released = record.released_trials()
    if released:
        record = replace(record, trial_retries=())
    record = _used(record, tx.now)
    row = asdict(dump_downstream(record))
    held = int(record.holds_at(tx.now))
    if tx.change("downstream_write", {**row, "lanes_held": held}) != 1:
        return None
    tx.change("downstream_hold_lanes", {"name": record.name, "held": held})
    tx.woke = tx.woke or not held
    _release(tx, released)
    return replace(record, version=record.version + 1)


def _release(tx: Transaction, trials: Sequence[TrialRetry]) -> None:
    if not trials:
        return
    retries = as_json([(retry.job_id, retry.token, retry.not_before) for retry in trials])
    moved = tx.rows("downstream_release_trials", {"retries": retries, "now": tx.now})
    for seq, lane, ready in moved:
        if ready:
            record_event(tx, seq, EventName.EXPEDITED)
            tx.move_count(lane, "scheduled", "ready")


def keep(tx: Transaction, before: DownstreamRecord, after: DownstreamRecord) -> None:
    """Store a record that this transaction read and changed; note it if its state moved."""
    if after is before:
        return
    stored = save(tx, after)
    if stored is None:
        raise AssertionError(f"downstream {after.name!r} changed inside our own transaction")
    if stored.circuit.state is not before.circuit.state:
        tx.moved.append(stored)


def declare(tx: Transaction, settings: Iterable[DownstreamSettings]) -> None:
    """Create missing records and bring the settings of the others up to date."""
    for wanted in settings:
        present = load(tx, wanted.name)
        if present is None:
            # No record of that name that was deleted has had this version.
            new = DownstreamRecord(wanted, version=int(tx.now * 1_000_000), used_at=tx.now)
            tx.change("downstream_create", asdict(dump_downstream(new)))
            continue
        updated = declared_again(present, wanted)
        if updated != present:
            keep(tx, present, updated)
        elif not present.use_is_noted(tx.now):
            _note_use(tx, [wanted.name])


def apply_reports(tx: Transaction, reports: Sequence[CallReport]) -> None:
    """Judge the accepted `reports` of a tick on their downstreams."""
    for name, its in by_downstream(reports).items():
        record = load(tx, name)
        if record is not None:
            keep(tx, record, judge(record, its, tx.now))


def note_use(tx: Transaction, name: str) -> None:
    """Note that the downstream `name` is used now, to the hour."""
    record = load(tx, name)
    if record is not None and not record.use_is_noted(tx.now):
        _note_use(tx, [name])


def note_last_use(tx: Transaction, ends: Sequence[tuple[int, float]]) -> None:
    """Note when jobs that are being deleted have used their downstreams: (lane, finished at)."""
    tx.change("downstream_used_by_jobs", {"ends": as_json(ends), "noted_every": USE_NOTED_EVERY})


def delete_unused(tx: Transaction, name: str, limit: int) -> int:
    """Delete up to `limit` records of keys of `name` that nothing uses; return how many.

    One that is kept counts as used now, so that it is not looked at again soon.
    """
    found = tx.rows(
        "downstream_unused",
        {"parent": name, "now": tx.now, "unused_for": UNUSED_FOR, "limit": limit},
    )
    unused = [each for each, is_kept in found if not is_kept]
    gone = {"names": as_json(unused)}
    tx.change("downstream_delete", gone)
    tx.change("downstream_delete_spent", gone)
    _note_use(tx, [each for each, is_kept in found if is_kept])
    return len(unused)


def _used(record: DownstreamRecord, now: float) -> DownstreamRecord:
    return record if record.use_is_noted(now) else replace(record, used_at=now)


def _note_use(tx: Transaction, names: Sequence[str]) -> None:
    tx.change("downstream_used", {"names": as_json(names), "used_at": tx.now})
