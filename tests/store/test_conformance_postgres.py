"""The PostgreSQL store passes the conformance suite."""

import asyncio

import pytest
from tests.support.postgres_tables import PostgresTables

from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.conformance import FACTS, Fact, World


async def check(fact: Fact, url: str, tables_url: str | None = None) -> None:
    """Check `fact` on the empty database at `url`; its tables are read at `tables_url`."""
    others: list[PostgresStore] = []

    async def open_second() -> PostgresStore:
        store = PostgresStore(url)
        await store.open()
        others.append(store)
        return store

    async with PostgresStore(url) as store:
        try:
            await fact(World(store, open_second, PostgresTables(tables_url or url)))
        finally:
            for other in others:
                await other.close()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_the_store_keeps(fact: Fact, postgres_url: str) -> None:
    asyncio.run(check(fact, postgres_url))
