"""The SQLite store keeps every promise of the ports."""

import asyncio
from pathlib import Path

import apsw
import pytest

pytest.register_assert_rewrite("holdfast.testing.conformance")

from holdfast.store.sqlite.store import SQLiteStore  # noqa: E402 - asserts are rewritten first
from holdfast.testing.conformance import FACTS, Fact, World  # noqa: E402


async def check(fact: Fact, path: Path) -> None:
    """Hold the store to `fact` on a fresh database at `path`."""
    others: list[SQLiteStore] = []

    async def open_second() -> SQLiteStore:
        store = SQLiteStore(path)
        await store.open()
        others.append(store)
        return store

    async def set_columns(job_id, columns):
        db = apsw.Connection(str(path))
        try:
            db.set_busy_timeout(5000)
            assignments = ", ".join(f"{name} = ?" for name in columns)
            db.execute(
                f"UPDATE holdfast_jobs SET {assignments} WHERE id = ?", (*columns.values(), job_id)
            )
        finally:
            db.close()

    async with SQLiteStore(path) as store:
        try:
            await fact(World(store, open_second, set_columns, (apsw.ConstraintError,)))
        finally:
            for other in others:
                await other.close()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_the_store_keeps(fact: Fact, tmp_path: Path) -> None:
    asyncio.run(check(fact, tmp_path / "work.db"))


def test_the_suite_is_whole() -> None:
    assert len(FACTS) == len({fact.__name__ for fact in FACTS})
    assert len(FACTS) > 100
