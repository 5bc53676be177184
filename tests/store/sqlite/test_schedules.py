"""Schedules on SQLite: the view for people."""

import asyncio
from dataclasses import replace

import apsw

from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing.conformance.schedule_facts import TIDY


def test_people_read_schedules_with_times(tmp_path):
    path = tmp_path / "a.db"

    async def scenario():
        async with SQLiteStore(path) as store:
            await store.create_schedules([replace(TIDY, paused_at=0.5)])

    asyncio.run(scenario())
    connection = apsw.Connection(str(path))
    rows = connection.execute(
        "SELECT name, schedule, next_slot, last_slot, paused_at FROM holdfast_schedules_readable"
    ).fetchall()
    connection.close()
    assert rows == [
        ("app.tidy", "every 30 s", "1970-01-01T00:15:30Z", None, "1970-01-01T00:00:00Z")
    ]
