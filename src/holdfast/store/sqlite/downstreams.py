"""Keep the durable records of downstreams, and mark the lanes of those that are held."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from holdfast.jobs.downstreams.record import CallReport, DownstreamRecord, DownstreamSettings, judge
from holdfast.jobs.downstreams.record_columns import (
    StoredDownstream,
    dump_downstream,
    load_downstream,
)
from holdfast.store.sqlite.read_pool import Snapshot
from holdfast.store.sqlite.transaction import Row, Transaction


def record_from(row: Row) -> DownstreamRecord:
    """Return the record in a row of `downstream_columns`."""
    return load_downstream(StoredDownstream(*row))


def load(tx: Transaction, name: str) -> DownstreamRecord | None:
    """Return the record of `name`, or None if it was never declared."""
    rows = tx.rows("downstream_get", {"name": name})
    return record_from(rows[0]) if rows else None


def read_all(snapshot: Snapshot) -> tuple[DownstreamRecord, ...]:
    """Return all records, by name."""
    return tuple(map(record_from, snapshot.rows("downstream_list")))


def read_one(snapshot: Snapshot, name: str) -> DownstreamRecord | None:
    """Return the record of `name`."""
    rows = snapshot.rows("downstream_get", {"name": name})
    return record_from(rows[0]) if rows else None


def save(tx: Transaction, record: DownstreamRecord) -> DownstreamRecord | None:
    """Store `record` where its version is still the stored one; return it as stored, else None."""
    row = asdict(dump_downstream(record))
    held = int(record.holds_at(tx.now))
    if tx.change("downstream_write", {**row, "lanes_held": held}) != 1:
        return None
    tx.change("downstream_hold_lanes", {"name": record.name, "held": held})
    tx.woke = tx.woke or not held
    return replace(record, version=record.version + 1)


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
        updated = replace(present, settings=_storable(wanted))
        if updated != present:
            keep(tx, present, updated)


def _storable(settings: DownstreamSettings) -> DownstreamSettings:
    """Return `settings` as they are read back, so that declaring them again changes nothing."""
    if settings.breaker is None or not settings.breaker.exclude:
        return settings
    return replace(settings, breaker=replace(settings.breaker, exclude=()))


def apply_reports(tx: Transaction, reports: Sequence[CallReport]) -> None:
    """Judge the accepted `reports` of a tick on their downstreams."""
    by_name: dict[str, list[CallReport]] = {}
    for report in reports:
        by_name.setdefault(report.downstream, []).append(report)
    for name, its in by_name.items():
        record = load(tx, name)
        if record is not None:
            keep(tx, record, judge(record, its, tx.now))
