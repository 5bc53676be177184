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
    monkeypatch.setattr(locks, "_WANTED", 9999)
    assert not locks._kernel_can()


@pytest.mark.parametrize("call, answer", [("mmap", -1), ("mprotect", -1)])
def test_a_system_that_lets_no_new_code_run_keeps_its_own_locks(monkeypatch, call, answer):
    locks.lock_by_open_file.cache_clear()
    library = locks.ctypes.CDLL(None)

    class Strict:
        """The system's library, which refuses one call."""

        def __init__(self, *_, **__):
            self.mmap, self.mprotect, self.fcntl = library.mmap, library.mprotect, library.fcntl
            refusing = locks.ctypes.CFUNCTYPE(locks.ctypes.c_void_p)(lambda: answer)
            setattr(self, call, refusing)

    try:
        monkeypatch.setattr(locks.ctypes, "CDLL", Strict)
        assert not locks.lock_by_open_file()
    finally:
        monkeypatch.undo()
        locks.lock_by_open_file.cache_clear()
        assert locks.lock_by_open_file()


_AT_ONCE = """
import sys, threading
from pathlib import Path
from holdfast.store.sqlite.connection import connect, disconnect

folder, ready, opened = Path(sys.argv[1]), threading.Barrier(3), []

def open_and_close(number):
    for turn in range(150):
        ready.wait()
        disconnect(connect(folder / f"{turn}.db", busy_timeout=30))
        opened.append(number)

threads = [threading.Thread(target=open_and_close, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(opened))
"""


def test_threads_that_open_and_close_a_new_file_at_once_never_wait_for_each_other(tmp_path):
    # In a process of its own: threads that wait for each other for ever take all others with them.
    command = [sys.executable, "-c", _AT_ONCE, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    assert done.stdout == "450\n"
