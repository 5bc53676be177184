"""The schedules of periodic jobs: created once, and changed by compare-and-set."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ScheduleRecord
from holdfast.store.postgres.connection import Connection, Database, rows
from holdfast.store.postgres.enqueue import enqueue_with
from holdfast.store.postgres.lanes import Lanes


async def create(connection: Connection, records: Sequence[ScheduleRecord]) -> None:
    """Store those of `records` whose names are not stored yet."""
    # In the order of names, so that two workers cannot deadlock.
    for record in sorted(records, key=lambda each: each.name):
        await rows(connection, "schedule_create", **asdict(record))


async def write(
    database: Database,
    lanes: Lanes,
    record: ScheduleRecord,
    jobs: Sequence[NewJob],
    now: float | None,
) -> ScheduleRecord | None:
    """Store `record` if the stored version is still its own, and create `jobs` with it."""

    async def compare_and_set(connection: Connection) -> bool:
        return bool(await rows(connection, "schedule_write", **asdict(record)))

    written = await enqueue_with(database, lanes, jobs, now, compare_and_set)
    return replace(record, version=record.version + 1) if written else None
