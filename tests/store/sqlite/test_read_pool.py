"""Reading does not wait for writing."""

import asyncio
import threading

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
            started, go = threading.Event(), threading.Event()

            def slow(tx):
                tx.db.execute("UPDATE holdfast_lanes SET held = 0")
                started.set()
                go.wait(30)

            writing = asyncio.create_task(store._write(slow))
            await asyncio.to_thread(started.wait, 30)
            job = await store.get("a")
            go.set()
            await writing
            return job

    assert asyncio.run(scenario()) is not None


def test_an_sqlite_error_while_reading_becomes_a_store_error(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db") as store:
            with pytest.raises(StoreError):
                await store._read(lambda view: view._db.execute("SELECT * FROM nothing"))
            with pytest.raises(ZeroDivisionError):
                await store._read(lambda view: 1 / 0)
            assert await store.ping() > 0

    asyncio.run(scenario())


def test_a_closed_pool_is_refused(tmp_path):
    path = tmp_path / "a.db"
    pool = ReadPool(path, 1, 1.0, FileIdentity(path))
    pool.close()
    with pytest.raises(StoreClosed, match="is not open"):
        asyncio.run(pool.read(lambda view: None))
