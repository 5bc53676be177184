"""The durable records of downstreams: read, lock, write and cache them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.jobs.downstreams.record import (
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    HoldMode,
    judge,
)
from holdfast.jobs.downstreams.record_columns import (
    StoredDownstream,
    dump_downstream,
    load_downstream,
)
from holdfast.store.postgres.connection import Connection, Database, Row, rows

Reports = Mapping[str, Sequence[CallReport]]
"""What a tick's attempts say, by downstream."""


def record_from(row: Row) -> DownstreamRecord:
    """Return the record in a row of `downstream_columns`."""
    return load_downstream(StoredDownstream(*row))


async def lock(connection: Connection, names: Iterable[str]) -> dict[str, DownstreamRecord]:
    """Return the records of `names` that exist, locked until the transaction ends."""
    found = await rows(connection, "downstream_lock", names=sorted(set(names)))
    return {record.name: record for record in map(record_from, found)}


async def save(connection: Connection, record: DownstreamRecord) -> DownstreamRecord | None:
    """Store `record` where its version is still the stored one; return it as stored, else None."""
    written = await rows(connection, "downstream_write", **_columns(record))
    return replace(record, version=record.version + 1) if written else None


def _columns(record: DownstreamRecord) -> dict[str, Any]:
    stored = dump_downstream(record)
    settings = record.settings
    ramps = settings.breaker is not None and settings.ramp_seconds > 0
    ends = record.closed_at + settings.ramp_seconds if ramps and record.closed_at else None
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
        "needs_check": settings.concurrency is not None or settings.rate is not None,
    }


async def declare(connection: Connection, settings: Iterable[DownstreamSettings]) -> None:
    """Create missing records and bring the settings of the others up to date."""
    wanted = {each.name: _storable(each) for each in settings}
    for name in sorted(wanted):
        await rows(connection, "downstream_create", **_columns(DownstreamRecord(wanted[name])))
    for name, present in (await lock(connection, wanted)).items():
        updated = replace(present, settings=wanted[name])
        if updated != present:
            await save(connection, updated)


def _storable(settings: DownstreamSettings) -> DownstreamSettings:
    """Return `settings` as they read back, so that declaring the same again changes nothing."""
    if settings.breaker is None or not settings.breaker.exclude:
        return settings
    return replace(settings, breaker=replace(settings.breaker, exclude=()))


def by_name(reports: Iterable[CallReport]) -> dict[str, list[CallReport]]:
    """Return `reports` by their downstreams, each in the order they came in."""
    found: dict[str, list[CallReport]] = {}
    for report in reports:
        found.setdefault(report.downstream, []).append(report)
    return found


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
            self._records.update(dict.fromkeys(missing))
            found = await self._database.rows("downstream_some", names=missing)
            self._records.update((record.name, record) for record in map(record_from, found))

    def forget(self, names: Iterable[str]) -> None:
        """Read these anew the next time they are needed."""
        for name in names:
            self._records.pop(name, None)
