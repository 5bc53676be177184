"""Keep the durable records of downstreams, and mark the lanes of those that are held."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from holdfast.jobs.downstreams.record import (
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    TrialRetry,
    by_downstream,
    judge,
)
from holdfast.jobs.downstreams.record_columns import dump_downstream, storable
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
            tx.change("downstream_create", asdict(dump_downstream(DownstreamRecord(wanted))))
            continue
        updated = replace(present, settings=storable(wanted))
        if updated != present:
            keep(tx, present, updated)


def apply_reports(tx: Transaction, reports: Sequence[CallReport]) -> None:
    """Judge the accepted `reports` of a tick on their downstreams."""
    for name, its in by_downstream(reports).items():
        record = load(tx, name)
        if record is not None:
            keep(tx, record, judge(record, its, tx.now))
