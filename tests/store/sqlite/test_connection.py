"""How a file is opened, and what its errors mean."""

import asyncio
import os
import resource
import subprocess
import sys
import threading

import apsw
import pytest

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import (
    ConstraintViolated,
    StoreBusy,
    StoreDiskError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
)
from holdfast.store.sqlite.connection import check_version, connect, disconnect, store_error
from holdfast.store.sqlite.store import SQLiteStore


def test_an_old_library_is_refused_with_what_to_do():
    with pytest.raises(StoreUnusable, match=r"3\.40\.1.*3\.51\.3.*pip install"):
        check_version("3.40.1")
    with pytest.raises(StoreUnusable):
        check_version("3.51.2")
    check_version("3.51.3")
    check_version("3.100.0")
    check_version()


def test_a_connection_writes_ahead_and_syncs_fully(tmp_path):
    db = connect(tmp_path / "a.db", busy_timeout=1)
    assert db.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert db.execute("PRAGMA synchronous").fetchall() == [(2,)]
    disconnect(db)


def test_a_reading_connection_cannot_write(tmp_path):
    disconnect(connect(tmp_path / "a.db", busy_timeout=1))
    db = connect(tmp_path / "a.db", busy_timeout=1, read_only=True)
    with pytest.raises(apsw.ReadOnlyError):
        db.execute("CREATE TABLE t (x)")
    disconnect(db)


def test_a_database_in_use_is_copied_by_vacuum_into(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db") as store:
            await store.enqueue([NewJob("a", "work")])
            db = apsw.Connection(str(store.path))
            db.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
            db.close()
            await store.enqueue([NewJob("b", "work")])
        async with SQLiteStore(tmp_path / "copy.db") as copy:
            assert [job.id for job in (await copy.list_jobs()).jobs] == ["a"]

    asyncio.run(scenario())


_OPEN_AT_ONCE = """
import sys, threading
from pathlib import Path
from holdfast.store.sqlite.connection import connect, disconnect

folder, ready, opened = Path(sys.argv[1]), threading.Barrier(3), []

def open_and_close(number):
    for turn in range(50):
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


def test_threads_that_open_a_new_file_at_once_do_not_deadlock(tmp_path):
    # In a separate process: a deadlock must not stop the other tests.
    command = [sys.executable, "-c", _OPEN_AT_ONCE, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    assert done.stdout == "150\n"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StoreUnusable, match="check that its folder exists"):
        connect(tmp_path / "nowhere" / "a.db", busy_timeout=1)


def test_a_file_that_is_not_a_database_is_refused(tmp_path):
    file = tmp_path / "a.db"
    file.write_bytes(b"this is a letter to my aunt, and a long one at that" * 100)
    with pytest.raises(StoreUnusable, match="not an intact SQLite database"):
        connect(file, busy_timeout=1)


@pytest.mark.parametrize(
    "error, meaning",
    [
        (apsw.BusyError("x"), StoreBusy),
        (apsw.LockedError("x"), StoreBusy),
        (apsw.FullError("x"), StoreFull),
        (apsw.IOError("x"), StoreDiskError),
        (apsw.NoMemError("x"), StoreUnavailable),
        (apsw.CorruptError("x"), StoreUnusable),
        (apsw.ReadOnlyError("x"), StoreUnusable),
        (apsw.CantOpenError("x"), StoreUnusable),
        (apsw.ConstraintError("x"), ConstraintViolated),
        (apsw.SQLError("x"), StoreError),
    ],
)
def test_each_error_has_its_meaning(tmp_path, error, meaning):
    translated = store_error(error, tmp_path / "a.db")
    assert type(translated) is meaning
    assert "a.db" in str(translated)


def test_temporary_errors_have_a_common_class():
    assert issubclass(StoreBusy, StoreUnavailable)
    assert issubclass(StoreFull, StoreUnavailable)
    assert not issubclass(StoreUnusable, StoreUnavailable)


def test_a_locked_database_is_busy_and_recovers_by_itself(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db", busy_timeout=0.05) as store:
            other = apsw.Connection(str(tmp_path / "a.db"))
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy, match="locked"):
                await store.enqueue([NewJob("a", "work")])
            assert await store.get("a") is None
            other.execute("ROLLBACK")
            other.close()
            await store.enqueue([NewJob("a", "work")])
            assert await store.get("a") is not None

    asyncio.run(scenario())


def test_a_new_file_that_another_connection_locks_is_busy(tmp_path):
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreBusy):
        connect(tmp_path / "a.db", busy_timeout=0.05)
    other.execute("ROLLBACK")
    disconnect(connect(tmp_path / "a.db", busy_timeout=0.05))
    other.close()


def test_a_lock_that_is_released_in_time_is_waited_for(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db", busy_timeout=30) as store:
            other = apsw.Connection(str(tmp_path / "a.db"))
            other.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(0.1, other.execute, ("ROLLBACK",))
            timer.start()
            await store.enqueue([NewJob("a", "work")])
            timer.join()
            other.close()

    asyncio.run(scenario())


def test_a_full_disk_is_reported_loses_nothing_and_recovers(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db") as store:
            await store.enqueue([NewJob("kept", "work")])
            pages = await store._write(
                lambda tx: tx.db.execute("PRAGMA page_count").fetchall()[0][0]
            )
            await store._write(
                lambda tx: tx.db.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            )
            big = NewJob("big", "work", arguments='"' + "x" * 1_000_000 + '"')
            small = [store.enqueue([NewJob(f"s{number}", "work")]) for number in range(3)]
            results = await asyncio.gather(store.enqueue([big]), *small, return_exceptions=True)
            assert isinstance(results[0], StoreFull)
            told = [not isinstance(result, BaseException) for result in results[1:]]
            there = [await store.get(f"s{number}") is not None for number in range(3)]
            assert told == there
            assert await store.get("kept") is not None
            await store._write(
                lambda tx: tx.db.execute("PRAGMA max_page_count = 1000000").fetchall()
            )
            await store.enqueue([big])
            assert (await store.tick("w")).refused == ()

    asyncio.run(scenario())


def test_a_process_without_free_descriptors_gets_a_clear_error(tmp_path):
    disconnect(connect(tmp_path / "a.db", busy_timeout=1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, hard))
    try:
        with pytest.raises(StoreUnavailable, match=r"no file descriptor left.*ulimit -n"):
            connect(tmp_path / "a.db", busy_timeout=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(taken)
    disconnect(connect(tmp_path / "a.db", busy_timeout=1))
