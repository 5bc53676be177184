"""A cache of lanes: their ids never change."""

from collections.abc import Iterable

from holdfast.store.postgres.connection import Database

Lane = tuple[str, str, str]
"""Queue, downstream and kind of a row of `lanes`; the downstream is "" where there is none."""


class Lanes:
    """Lanes by id and ids by lane, created where they are missing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: dict[Lane, int] = {}
        self._by_id: dict[int, Lane] = {}

    async def ids(self, lanes: Iterable[Lane]) -> dict[Lane, int]:
        """Return the ids of `lanes`; new ones are committed at once, in no caller's transaction."""
        missing = sorted(lane for lane in set(lanes) if lane not in self._ids)
        if missing:
            columns = [list(column) for column in zip(*missing, strict=True)]
            given = {"queues": columns[0], "downstreams": columns[1], "kinds": columns[2]}
            found = await self._database.rows("lanes_find", **given)
            if len(found) < len(missing):
                await self._database.write("lanes_create", **given)
                found = await self._database.rows("lanes_find", **given)
            self._remember(found)
        return self._ids

    async def by_id(self, ids: Iterable[int]) -> dict[int, Lane]:
        """Return the lanes with these `ids`."""
        missing = [lane for lane in set(ids) if lane not in self._by_id]
        if missing:
            self._remember(await self._database.rows("lanes_by_id", ids=missing))
        return self._by_id

    def forget(self) -> None:
        """Forget them all: the database may be another one now."""
        self._ids.clear()
        self._by_id.clear()

    def _remember(self, rows: Iterable[tuple[int, str, str, str]]) -> None:
        for number, queue, downstream, kind in rows:
            self._ids[queue, downstream, kind] = number
            self._by_id[number] = (queue, downstream, kind)
