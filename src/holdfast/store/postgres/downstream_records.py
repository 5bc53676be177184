"""The durable records of downstreams: read, lock, write and cache them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.jobs.downstreams.record import (
    UNUSED_FOR,
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    HoldMode,
    judge,
)
from holdfast.jobs.downstreams.record_columns import declared_again, dump_downstream, storable
from holdfast.store.postgres.connection import Connection, Database, rows
from holdfast.store.row_mapping import record_from

Reports = Mapping[str, Sequence[CallReport]]
"""What a tick's attempts say, by downstream."""

_MOST_KNOWN = 50_000
"""Records that are remembered; one more, and all are forgotten first."""


async def lock(
    connection: Connection, names: Iterable[str], *, skip: bool = False
) -> dict[str, DownstreamRecord]:
    """Return the records of `names` that exist, locked until the transaction ends.

    With `skip` those that another transaction has locked are left out.
    """
    query = "downstream_lock_free" if skip else "downstream_lock"
    found = await rows(connection, query, names=sorted(set(names)))
    return {record.name: record for record in map(record_from, found)}


async def save(
    connection: Connection, record: DownstreamRecord, now: float | None
) -> DownstreamRecord | None:
    """Store `record` where its version is still the stored one; return it as stored, else None."""
    stored = await save_all(connection, [record], now)
    return stored[0] if stored else None


async def save_all(
    connection: Connection, records: Sequence[DownstreamRecord], now: float | None
) -> list[DownstreamRecord]:
    """Store those of `records` whose versions are still the stored ones; return them as stored.

    With a closed breaker the jobs that wait after failed trials become ready, or wait only as long
    as the downstream asked for.
    """
    released = {record.name: record.released_trials() for record in records}
    remaining = [
        replace(record, trial_retries=()) if released[record.name] else record for record in records
    ]
    each = [_columns(record) for record in remaining]
    columns = {name: [one[name] for one in each] for name in each[0]}
    written = {row[0] for row in await rows(connection, "downstream_write", **columns, now=now)}
    retries = [retry for name in sorted(written) for retry in released[name]]
    if retries:
        await rows(
            connection,
            "downstream_release_trials",
            ids=[retry.job_id for retry in retries],
            tokens=[retry.token for retry in retries],
            not_before=[retry.not_before for retry in retries],
            now=now,
        )
    return [
        replace(record, version=record.version + 1)
        for record in remaining
        if record.name in written
    ]


def _columns(record: DownstreamRecord) -> dict[str, Any]:
    stored = dump_downstream(record)
    settings = record.settings
    ramps = settings.breaker is not None and settings.ramp_seconds > 0
    ends = record.closed_at + settings.ramp_seconds if ramps and record.closed_at else None
    unproven = settings.unproven_concurrency is not None and not record.proven
    limited = settings.concurrency is not None or settings.rate is not None or unproven
    return {
        "name": stored.name,
        "version": stored.version,
        "state": stored.state,
        "generation": stored.generation,
        "open_until": stored.open_until,
        "settings": stored.settings,
        "record": stored.record,
        "ramp_until": ends,
        "holds": settings.breaker is not None and settings.mode is HoldMode.HOLD,
        "needs_check": limited,
        "parent": stored.parent,
    }


async def declare(
    connection: Connection, settings: Iterable[DownstreamSettings], now: float | None
) -> None:
    """Create missing records and bring the settings of the others up to date."""
    wanted = {each.name: storable(each) for each in settings}
    for name in sorted(wanted):
        columns = _columns(DownstreamRecord(wanted[name]))
        await rows(connection, "downstream_create", **columns, now=now)
    for name, present in (await lock(connection, wanted)).items():
        updated = declared_again(present, wanted[name])
        if updated != present:
            await save(connection, updated, now)


async def note_use(database: Database, name: str, now: float | None) -> None:
    """Note that the downstream `name` is used now, to the hour."""
    await database.write("downstream_used", name=name, now=now)


async def delete_unused(database: Database, name: str, limit: int, now: float | None) -> int:
    """Delete up to `limit` records of keys of `name` that nothing uses; return how many."""
    found = await database.write(
        "downstream_delete_unused", name=name, unused_for=UNUSED_FOR, limit=limit, now=now
    )
    return int(found[0][0])


class KnownDownstreams:
    """Records as they were last seen: enough to know that a report would change nothing.

    A success on a closed and quiet breaker writes nothing. Whether it is still quiet is the
    database's to say: the tick names the versions that it was judged by.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records: dict[str, DownstreamRecord | None] = {}

    async def quiet_versions(self, reports: Reports) -> dict[str, int | None] | None:
        """Return the versions at which `reports` change nothing, or None where one does."""
        await self._load(name for name in reports if name not in self._records)
        versions: dict[str, int | None] = {}
        for name, its in reports.items():
            record = self._records.get(name)  # another tick may have forgotten it meanwhile
            if record is not None and judge(record, its, 0.0) is not record:
                return None
            versions[name] = None if record is None else record.version
        return versions

    async def _load(self, names: Iterable[str]) -> None:
        missing = list(names)
        if missing:
            if len(self._records) + len(missing) > _MOST_KNOWN:
                self._records.clear()
            self._records.update(dict.fromkeys(missing))
            found = await self._database.rows("downstream_some", names=missing)
            self._records.update((record.name, record) for record in map(record_from, found))

    def forget(self, names: Iterable[str]) -> None:
        """Read these again the next time they are needed."""
        for name in names:
            self._records.pop(name, None)
