"""The methods of the store that write the records of downstreams."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.jobs.downstreams.record import DownstreamRecord, DownstreamSettings
from holdfast.store.sqlite import downstream_records
from holdfast.store.sqlite.transaction import Transaction

T = TypeVar("T")


class DownstreamMethods(ABC):
    """The part of the store that writes; see `DownstreamStore`."""

    @abstractmethod
    async def _write(self, work: Callable[[Transaction], T], now: float | None = None) -> T:
        """Do `work` in a transaction and return its value."""

    async def declare_downstreams(
        self, settings: Sequence[DownstreamSettings], *, now: float | None = None
    ) -> None:
        """Create missing records and bring the settings of the others up to date."""
        await self._write(lambda tx: downstream_records.declare(tx, settings), now)

    async def write_downstream(
        self, record: DownstreamRecord, *, now: float | None = None
    ) -> DownstreamRecord | None:
        """Store `record` where the version stored is still its own."""
        return await self._write(lambda tx: downstream_records.save(tx, record), now)

    async def note_downstream_use(self, name: str, *, now: float | None = None) -> None:
        """Note that a downstream is used outside of jobs."""
        await self._write(lambda tx: downstream_records.note_use(tx, name), now)

    async def delete_unused_downstreams(
        self, name: str, *, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete records of keys that nothing uses."""
        return await self._write(lambda tx: downstream_records.delete_unused(tx, name, limit), now)
