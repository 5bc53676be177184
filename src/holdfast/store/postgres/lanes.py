"""A cache of lanes. One may have been deleted meanwhile: enqueueing checks that in the database."""

from collections.abc import Iterable

from holdfast.store.postgres.connection import Database

Lane = tuple[str, str, str]
"""Queue, downstream and kind of a row of `lanes`; the downstream is "" where there is none."""


class Lanes:
    """Lanes by id and ids by lane, created where they are missing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.known: dict[int, Lane] = {}
        """Lanes by id, those read so far."""
        self.known_ids: dict[Lane, int] = {}
        """The same, ids by lane."""

    async def ids(self, lanes: Iterable[Lane]) -> dict[Lane, int]:
        """Return the ids of `lanes`; new ones are committed at once, in no caller's transaction."""
        missing = sorted(lane for lane in set(lanes) if lane not in self.known_ids)
        if missing:
            columns = [list(column) for column in zip(*missing, strict=True)]
            given = {"queues": columns[0], "downstreams": columns[1], "kinds": columns[2]}
            found = await self._database.rows("lanes_find", **given)
            if len(found) < len(missing):
                await self._database.write("lanes_create", **given)
                found = await self._database.rows("lanes_find", **given)
            self._remember(found)
        return self.known_ids

    async def by_id(self, ids: Iterable[int]) -> dict[int, Lane]:
        """Return the lanes with these `ids`, as far as they still exist."""
        wanted = set(ids)
        # A copy: they may be forgotten while this waits for the database.
        lanes = {lane: self.known[lane] for lane in wanted if lane in self.known}
        missing = wanted - lanes.keys()
        if missing:
            found = await self._database.rows("lanes_by_id", ids=list(missing))
            self._remember(found)
            lanes |= {
                number: (queue, downstream, kind) for number, queue, downstream, kind in found
            }
        return lanes

    def forget(self) -> None:
        """Forget them all: the database may be another one now."""
        self.known_ids.clear()
        self.known.clear()

    def _remember(self, rows: Iterable[tuple[int, str, str, str]]) -> None:
        for number, queue, downstream, kind in rows:
            self.known_ids[queue, downstream, kind] = number
            self.known[number] = (queue, downstream, kind)
