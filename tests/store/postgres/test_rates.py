"""Shared rates on PostgreSQL: counted by the database's clock, few rows, safe under contention."""

import asyncio

import asyncpg

from holdfast import RateLimit
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing import VirtualClock


async def fetch(url, sql):
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


def test_starts_that_no_limit_looks_back_at_are_forgotten(postgres_url):
    async def scenario():
        async with PostgresStore(postgres_url) as store:
            for second in range(20):
                await store.reserve_start("a", RateLimit(per_minute=4), 1e9, now=float(second))
        return await fetch(postgres_url, "SELECT number FROM holdfast.rate_starts ORDER BY 1")

    assert asyncio.run(scenario()) == [(17,), (18,), (19,), (20,)]


def test_the_time_is_the_databases_own(postgres_url):
    async def scenario():
        limit = RateLimit(per_minute=1)
        async with (
            PostgresStore(postgres_url, clock=VirtualClock(start_wall=5.0)) as store,
            PostgresStore(postgres_url) as other,
        ):
            waits = [await each.reserve_start("a", limit, 0) for each in (store, other)]
        ((seconds,),) = await fetch(
            postgres_url,
            "SELECT extract(epoch FROM now())::float8 - last_start FROM holdfast.rates",
        )
        return waits, seconds

    (first, second), seconds = asyncio.run(scenario())
    assert first == 0
    assert 0 < second <= 60
    assert 0 <= seconds < 60
