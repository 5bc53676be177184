"""Kinds without dead letters: both stores have statements of the same names and columns."""

from collections.abc import Mapping

from holdfast.store.statements import Statements


class QuietKinds(Statements):
    """A store's kinds without dead letters, but for how it runs a statement."""

    async def declare_dead_letters(self, kinds: Mapping[str, bool]) -> int:
        """Store which kinds have dead letters; see `MaintenanceStore`."""
        quiet = {kind for (kind,) in await self._rows("kind_quiet")}
        changed = [kind for kind, has_any in kinds.items() if (kind in quiet) is has_any]
        for kind in changed:
            query = "kind_unquieten" if kinds[kind] else "kind_quieten"
            await self._changed_rows(query, None, kind=kind)
        return len(changed)
