"""The methods of the store that write the records of downstreams."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from holdfast.jobs.downstreams.record import DownstreamRecord, DownstreamSettings
from holdfast.store.postgres import downstream_records
from holdfast.store.postgres.connection import Database


class DownstreamMethods(ABC):
    """The part of the store that writes; see `DownstreamStore`."""

    _database: Database

    @abstractmethod
    async def _wrote(self, *, work: bool = False) -> None:
        """Wake what waits for changes."""

    async def declare_downstreams(
        self, settings: Sequence[DownstreamSettings], *, now: float | None = None
    ) -> None:
        """Create missing records and bring the settings of the others up to date."""
        await self._database.transaction(
            lambda connection: downstream_records.declare(connection, settings, now)
        )
        await self._wrote(work=True)

    async def write_downstream(
        self, record: DownstreamRecord, *, now: float | None = None
    ) -> DownstreamRecord | None:
        """Store `record` where the version stored is still its own."""
        stored = await self._database.transaction(
            lambda connection: downstream_records.save(connection, record, now)
        )
        await self._wrote(work=True)
        return stored

    async def note_downstream_use(self, name: str, *, now: float | None = None) -> None:
        """Note that a downstream is used outside of jobs."""
        await downstream_records.note_use(self._database, name, now)

    async def delete_unused_downstreams(
        self, name: str, *, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete records of keys that nothing uses."""
        return await downstream_records.delete_unused(self._database, name, limit, now)
