"""Two SQLite libraries in one process, on one file, do not hurt each other."""

import asyncio
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest

from holdfast.jobs.model import NewJob
from holdfast.store.sqlite import locks
from holdfast.store.sqlite.store import SQLiteStore

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="locks by open file are a thing of Linux"
)

_COUNT = (
    "import apsw, sys; db = apsw.Connection(sys.argv[1]);"
    "print(db.execute('SELECT count(*) FROM jobs').fetchall()[0][0]); db.close()"
)


def seen_by_another_process(path) -> int:
    command = [sys.executable, "-c", _COUNT, str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_the_other_library_waits_for_our_write_lock(tmp_path):
    async def scenario():
        path = tmp_path / "a.db"
        async with SQLiteStore(path) as store:

            def write_meanwhile(tx):
                other = sqlite3.connect(path, timeout=0, isolation_level=None)
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    other.execute("BEGIN IMMEDIATE")
                other.close()
                return tx.now

            await store._write(write_meanwhile)

    asyncio.run(scenario())


def test_we_wait_for_the_other_librarys_write_lock(tmp_path):
    async def scenario():
        path = tmp_path / "a.db"
        async with SQLiteStore(path, busy_timeout=0.05) as store:
            other = sqlite3.connect(path, timeout=0, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Exception, match="locked"):
                await store.enqueue([NewJob("a", "work")])
            other.execute("COMMIT")
            other.close()
            await store.enqueue([NewJob("a", "work")])

    asyncio.run(scenario())


def test_the_log_survives_the_other_librarys_goodbye(tmp_path):
    async def scenario():
        path = tmp_path / "a.db"
        async with SQLiteStore(path) as store:
            await store.enqueue([NewJob("a", "work")])
            other = sqlite3.connect(path)
            assert other.execute("SELECT count(*) FROM jobs").fetchone() == (1,)
            other.close()
            assert seen_by_another_process(path) == 1
            await store.enqueue([NewJob("b", "work")])
            assert seen_by_another_process(path) == 2

    asyncio.run(scenario())


def test_both_libraries_write_at_once_and_nothing_is_lost(tmp_path):
    path = tmp_path / "a.db"

    def write_with_the_other(worker):
        for number in range(40):
            db = sqlite3.connect(path, timeout=30, isolation_level=None)
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO mine VALUES (?)", (f"{worker}-{number}",))
            db.execute("COMMIT")
            db.close()

    async def scenario():
        async with SQLiteStore(path, busy_timeout=30) as store:
            await store._write(lambda tx: tx.db.execute("CREATE TABLE mine (x)"))
            with ThreadPoolExecutor(2) as pool:
                others = [pool.submit(write_with_the_other, worker) for worker in range(2)]
                for number in range(80):
                    await store.enqueue([NewJob(f"job-{number}", "work")])
                for other in others:
                    await asyncio.wrap_future(other)
            stats = await store.stats()
            assert stats.lanes[0].ready == 80

    asyncio.run(scenario())
    db = apsw.Connection(str(path))
    assert db.execute("SELECT count(*) FROM mine").fetchall() == [(80,)]
    assert db.execute("SELECT count(*) FROM jobs").fetchall() == [(80,)]
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_where_the_system_cannot_it_says_so(monkeypatch):
    locks.lock_by_open_file.cache_clear()
    try:
        monkeypatch.setattr(locks.platform, "machine", lambda: "riscv32")
        assert not locks.lock_by_open_file()
    finally:
        monkeypatch.undo()
        locks.lock_by_open_file.cache_clear()
        assert locks.lock_by_open_file()


def test_a_kernel_without_such_locks_is_noticed(monkeypatch):
    monkeypatch.setitem(locks._BY_OPEN_FILE, locks.fcntl.F_SETLK, 9999)
    assert not locks._kernel_can()
