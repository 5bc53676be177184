"""Shared rates on SQLite keep only the starts that they look back at."""

import asyncio

import apsw

from holdfast import RateLimit
from holdfast.store.sqlite.store import SQLiteStore


def test_starts_that_no_limit_looks_back_at_are_forgotten(tmp_path):
    path = tmp_path / "work.db"

    async def scenario():
        async with SQLiteStore(path) as store:
            for second in range(20):
                await store.reserve_start("a", RateLimit(per_minute=4), 1e9, now=float(second))
            await store.reserve_start("b", RateLimit(per_day=9), 0, now=0.0)

    asyncio.run(scenario())
    with apsw.Connection(str(path)) as db:
        rows = db.execute("SELECT name, number FROM holdfast_rate_starts ORDER BY 1, 2").fetchall()
    assert rows == [("a", 17), ("a", 18), ("a", 19), ("a", 20), ("b", 1)]


def test_the_time_is_that_of_the_stores_clock(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "work.db") as store:
            limit = RateLimit(per_minute=1)
            return [await store.reserve_start("a", limit, 0) for _ in range(2)]

    first, second = asyncio.run(scenario())
    assert first == 0
    assert 0 < second <= 60
