"""A database that is deleted or replaced while open is detected before a write is acknowledged."""

import asyncio
import shutil

import apsw
import pytest

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.sqlite import file_identity
from holdfast.store.sqlite.store import SQLiteStore


def run(tmp_path, scenario):
    async def main():
        async with SQLiteStore(tmp_path / "a.db") as store:
            await store.enqueue([NewJob("a", "work")])
            assert await store.get("a") is not None
            await scenario(store)

    asyncio.run(main())


def gone():
    return pytest.raises(StoreUnusable, match="deleted, moved or replaced while it was open")


@pytest.mark.parametrize(
    "endings", [("",), ("", "-wal", "-shm"), ("-wal",)], ids=["database", "all", "log"]
)
def test_nothing_is_acknowledged_into_a_deleted_file(tmp_path, endings):
    async def scenario(store):
        for ending in endings:
            store.path.with_name(f"a.db{ending}").unlink()
        for name in ("b", "c"):
            with gone():
                await store.enqueue([NewJob(name, "work")])

    run(tmp_path, scenario)


def test_nothing_is_acknowledged_into_a_replaced_file(tmp_path):
    async def scenario(store):
        shutil.copy(store.path, tmp_path / "copy")
        (tmp_path / "copy").replace(store.path)
        with gone():
            await store.enqueue([NewJob("b", "work")])

    run(tmp_path, scenario)


def test_nothing_is_read_from_a_deleted_file(tmp_path):
    async def scenario(store):
        store.path.unlink()
        with gone():
            await store.get("a")

    run(tmp_path, scenario)


def test_nothing_joins_a_transaction_on_a_deleted_file(tmp_path):
    async def scenario(store):
        callers = apsw.Connection(str(store.path))
        callers.execute("BEGIN IMMEDIATE")
        store.path.unlink()
        with gone():
            await store.enqueue_on(callers, [NewJob("b", "work")])
        callers.close()

    run(tmp_path, scenario)


def test_a_file_that_is_restored_is_used_again(tmp_path):
    async def scenario(store):
        store.path.rename(tmp_path / "elsewhere")
        with gone():
            await store.enqueue([NewJob("b", "work")])
        (tmp_path / "elsewhere").rename(store.path)
        await store.enqueue([NewJob("c", "work")])
        assert await store.get("c") is not None

    run(tmp_path, scenario)


def test_an_error_while_checking_is_left_to_sqlite(tmp_path, monkeypatch):
    def not_permitted(_):
        raise PermissionError

    async def scenario(store):
        monkeypatch.setattr(file_identity, "_file_at", not_permitted)
        await store.enqueue([NewJob("b", "work")])

    run(tmp_path, scenario)


def test_a_file_that_vanishes_while_it_is_opened_is_refused(tmp_path):
    with gone():
        file_identity.FileIdentity(tmp_path / "a.db").record()


def test_a_process_that_changes_its_folder_finds_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def main():
        async with SQLiteStore("a.db") as store:
            monkeypatch.chdir("/")
            await store.enqueue([NewJob("a", "work")])

    asyncio.run(main())


def test_a_new_file_is_used_by_the_next_opening(tmp_path):
    async def main():
        async with SQLiteStore(tmp_path / "a.db") as store:
            await store.enqueue([NewJob("a", "work")])
        for file in tmp_path.iterdir():
            file.unlink()
        async with SQLiteStore(tmp_path / "a.db") as store:
            await store.enqueue([NewJob("b", "work")])
            assert await store.get("a") is None

    asyncio.run(main())
