"""A table of an app, with another that refers to it, for facts about the rows of apps."""

from typing import Any

from holdfast.jobs.database_port import Row
from holdfast.testing.conformance.world import World

_CREATE = (
    "CREATE TABLE notes (id integer PRIMARY KEY, body text NOT NULL UNIQUE)",
    "CREATE TABLE tags (note integer NOT NULL REFERENCES notes (id) ON DELETE CASCADE, tag text)",
)
ADD_NOTE = "INSERT INTO notes (id, body) VALUES (:id, :body)"
ALL_NOTES = "SELECT id, body FROM notes ORDER BY id"

LONG_QUERY = """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000)
    SELECT count(*) FROM n
"""


async def create_notes(world: World) -> None:
    """Create the tables."""
    async with world.store.database.transaction() as tx:
        for sql in _CREATE:
            await tx.fetch(sql)


async def notes(world: World) -> list[Row]:
    """Return all committed rows."""
    return await world.store.database.fetch(ALL_NOTES)


def note(number: int) -> dict[str, Any]:
    """Return the parameters of `ADD_NOTE`."""
    return {"id": number, "body": f"note {number}"}
