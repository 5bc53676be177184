"""The PostgreSQL store keeps every promise of the ports."""

import asyncio

import asyncpg
import pytest

pytest.register_assert_rewrite("holdfast.testing.conformance")

from holdfast.store.postgres.store import PostgresStore  # noqa: E402 - asserts are rewritten first
from holdfast.testing import postgres_rows  # noqa: E402 - the same
from holdfast.testing.conformance import FACTS, Fact, World  # noqa: E402

# The latter is what a name that is none of the enumerated ones gets.
VIOLATIONS = (asyncpg.CheckViolationError, asyncpg.InvalidTextRepresentationError)


async def check(fact: Fact, url: str) -> None:
    """Hold the store to `fact` on the fresh database at `url`."""
    others: list[PostgresStore] = []

    async def open_second() -> PostgresStore:
        store = PostgresStore(url)
        await store.open()
        others.append(store)
        return store

    async def set_columns(job_id, columns):
        await postgres_rows.set_columns(url, job_id, columns)

    async with PostgresStore(url) as store:
        try:
            await fact(World(store, open_second, set_columns, VIOLATIONS))
        finally:
            for other in others:
                await other.close()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_the_store_keeps(fact: Fact, postgres_url: str) -> None:
    asyncio.run(check(fact, postgres_url))
