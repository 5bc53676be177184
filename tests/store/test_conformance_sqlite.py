"""The SQLite store passes the conformance suite."""

import asyncio
from pathlib import Path

import pytest
from tests.support.sqlite_tables import SQLiteTables

from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing.conformance import FACTS, Fact, World


async def check(fact: Fact, path: Path) -> None:
    """Check `fact` on an empty database at `path`."""
    others: list[SQLiteStore] = []

    async def open_second() -> SQLiteStore:
        store = SQLiteStore(path)
        await store.open()
        others.append(store)
        return store

    async with SQLiteStore(path) as store:
        try:
            await fact(World(store, open_second, SQLiteTables(path)))
        finally:
            for other in others:
                await other.close()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_the_store_keeps(fact: Fact, tmp_path: Path) -> None:
    asyncio.run(check(fact, tmp_path / "work.db"))


def test_the_suite_is_whole() -> None:
    assert len(FACTS) == len({fact.__name__ for fact in FACTS})
    assert len(FACTS) > 100
