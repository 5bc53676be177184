"""The schedules of periodic jobs: created once, and changed by compare-and-set."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ScheduleRecord
from holdfast.store.sqlite.enqueue import enqueue
from holdfast.store.sqlite.transaction import Transaction


def create(tx: Transaction, records: Sequence[ScheduleRecord]) -> None:
    """Store those of `records` whose names are not stored yet."""
    for record in records:
        tx.change("schedule_create", asdict(record))


def write(tx: Transaction, record: ScheduleRecord, jobs: Sequence[NewJob]) -> ScheduleRecord | None:
    """Store `record` if the stored version is still its own, and create `jobs` with it."""
    version = tx.value("schedule_write", asdict(record))
    if version is None:
        return None
    if jobs:
        enqueue(tx, jobs)
    return replace(record, version=version)
