"""Kinds without dead letters: both stores have statements of the same names and columns."""

from collections.abc import Mapping

from holdfast.store.statements import Statements


class StoredDeadLetterKinds(Statements):
    """A store's kinds without dead letters, but for how it runs a statement."""

    async def declare_dead_letters(self, kinds: Mapping[str, bool]) -> int:
        """Store which kinds have dead letters; see `MaintenanceStore`."""
        without = {kind for (kind,) in await self._rows("dead_letters_none")}
        changed = [kind for kind, has_any in kinds.items() if (kind in without) is has_any]
        for kind in changed:
            query = "dead_letters_allow" if kinds[kind] else "dead_letters_stop"
            await self._changed_rows(query, None, kind=kind)
        return len(changed)
