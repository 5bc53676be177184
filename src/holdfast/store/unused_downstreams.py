"""Delete records of downstreams that nothing uses; both stores name the statements alike."""

from abc import abstractmethod

from holdfast.store.statements import Statements

_RESTED = 86_400.0
"""Seconds after which neither the cooldown of a breaker nor the start of a call matters."""


class UnusedDownstreams(Statements):
    """Deletes records, but for how a store runs a statement; see `DownstreamStore`."""

    @abstractmethod
    def _now(self, now: float | None) -> float | None:
        """Return the time for a statement that reads."""

    async def delete_unused_downstreams(
        self, name: str, *, after: str = "", limit: int = 500, now: float | None = None
    ) -> tuple[int, str | None]:
        """Delete records made by a `key` of the downstream `name`."""
        first, end = f"{name}:", f"{name};"  # the character after a colon
        given = {"after": max(after, first), "rested": _RESTED}
        ((looked_at, last, unused),) = await self._rows(
            "downstream_unused", **given, end=end, limit=limit, now=self._now(now)
        )
        deleted = 0
        if unused:
            deleted = len(
                await self._changed_rows("downstream_delete_unused", now, **given, last=last)
            )
            await self._changed_rows("downstream_delete_spent", now, **given, last=last)
        return deleted, last if looked_at == limit else None
