"""Pauses of queues and kinds: both stores have statements of the same names and columns."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from holdfast.jobs.control_port import PauseScope, StoredPause
from holdfast.store.statements import Statements


class Pauses(Statements):
    """A store's pauses, but for how it runs a statement; see `FleetStore`."""

    @abstractmethod
    def _array(self, values: Sequence[str]) -> Any:
        """Return `values` as a parameter."""

    async def pause(
        self, scope: PauseScope, names: Sequence[str], *, now: float | None = None
    ) -> tuple[str, ...]:
        """Pause queues or kinds."""
        return await self._change_pauses("pause_add", scope, names, now)

    async def resume(
        self, scope: PauseScope, names: Sequence[str], *, now: float | None = None
    ) -> tuple[str, ...]:
        """End pauses."""
        return await self._change_pauses("pause_remove", scope, names, now)

    async def _change_pauses(
        self, query: str, scope: PauseScope, names: Sequence[str], now: float | None
    ) -> tuple[str, ...]:
        # In order, so that two calls with common names cannot deadlock.
        given = {"scope": str(scope), "names": self._array(sorted(names))}
        return tuple(sorted(row[0] for row in await self._changed_rows(query, now, **given)))

    async def pauses(self) -> tuple[StoredPause, ...]:
        """Return all pauses."""
        rows = await self._rows("pause_list")
        return tuple(StoredPause(PauseScope(scope), name, at) for scope, name, at in rows)
