"""Reading does not wait for writing."""

import asyncio

import apsw
import pytest

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreClosed, StoreError
from holdfast.store.sqlite.file_identity import FileIdentity
from holdfast.store.sqlite.read_pool import ReadPool
from holdfast.store.sqlite.store import SQLiteStore


def test_a_page_is_read_while_a_write_is_under_way(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db") as store:
            await store.enqueue([NewJob("a", "work")])
            other = apsw.Connection(str(store.path))
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(store.enqueue([NewJob("b", "work")]))
            assert [job.id for job in (await store.list_jobs()).jobs] == ["a"]
            assert not writing.done()
            other.execute("ROLLBACK")
            other.close()
            await writing

    asyncio.run(scenario())


def test_an_sqlite_error_while_reading_becomes_a_store_error(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db") as store:
            other = apsw.Connection(str(store.path))
            other.execute("DROP TABLE holdfast_late_results")
            other.close()
            with pytest.raises(StoreError, match="holdfast_late_results"):
                await store.late_results("a")
            assert await store.ping() > 0

    asyncio.run(scenario())


def test_an_error_of_the_read_function_is_raised_unchanged(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db") as store:
            pool = ReadPool(store.path, 1, 1.0, FileIdentity(store.path))
            with pytest.raises(ZeroDivisionError):
                await pool.read(lambda view: 1 / 0)
            assert await pool.read(lambda view: view.rows("read_last_sequence")) == [(0,)]
            pool.close()

    asyncio.run(scenario())


def test_a_closed_pool_is_refused(tmp_path):
    path = tmp_path / "a.db"
    pool = ReadPool(path, 1, 1.0, FileIdentity(path))
    pool.close()
    with pytest.raises(StoreClosed, match="is not open"):
        asyncio.run(pool.read(lambda view: None))
