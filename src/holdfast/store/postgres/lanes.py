"""A cache of lanes. It may be outdated: a lane may have been deleted, or have another id now.

Enqueueing therefore checks in the database what it takes from here, and a claim takes the lanes of
its jobs from the database's answer.
"""

from collections.abc import Iterable

from holdfast.store.postgres.connection import Database

_MOST = 50_000
"""Lanes that are remembered; one more, and all are forgotten first."""

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
        wanted = set(lanes)
        ids = {lane: self.known_ids[lane] for lane in wanted if lane in self.known_ids}
        # More than once only where a fold deletes a new lane, which has no jobs, before it is read.
        while missing := sorted(wanted - ids.keys()):
            columns = [list(column) for column in zip(*missing, strict=True)]
            given = {"queues": columns[0], "downstreams": columns[1], "kinds": columns[2]}
            found = await self._database.rows("lanes_find", **given)
            if len(found) < len(missing):
                await self._database.write("lanes_create", **given)
                found = await self._database.rows("lanes_find", **given)
            read = {number: (queue, downstream, kind) for number, queue, downstream, kind in found}
            self.remember(read)
            ids |= {lane: number for number, lane in read.items()}
        return ids

    def remember(self, lanes: dict[int, Lane]) -> None:
        """Take in lanes by id, just read from the database."""
        new = {number: lane for number, lane in lanes.items() if self.known.get(number) != lane}
        if len(self.known) + len(new) > _MOST:
            self.forget()
        for number, lane in list(new.items())[:_MOST]:
            if lane in self.known_ids:
                del self.known[self.known_ids.pop(lane)]
            if number in self.known:
                del self.known_ids[self.known.pop(number)]
            self.known[number] = lane
            self.known_ids[lane] = number

    def forget(self) -> None:
        """Forget them all: the database may be another one now."""
        self.known_ids.clear()
        self.known.clear()
