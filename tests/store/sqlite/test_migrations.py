"""The schema: applied in order, once, and never backwards."""

import asyncio
import sqlite3
import subprocess
import sys

import apsw
import pytest

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.sqlite import migrations
from holdfast.store.sqlite.migrations import Migration, known_migrations, migrate, schema_version
from holdfast.store.sqlite.store import SQLiteStore

_OPEN = """
import asyncio, sys
from holdfast.store.sqlite.store import SQLiteStore
async def main():
    async with SQLiteStore(sys.argv[1], busy_timeout=30) as store:
        print(await store.schema_version())
asyncio.run(main())
"""


def test_migrations_are_numbered_without_gaps():
    versions = [migration.version for migration in known_migrations()]
    assert versions == list(range(1, len(versions) + 1))
    assert all(migration.name for migration in known_migrations())


def test_a_fresh_database_gets_them_all_and_a_second_run_none():
    db = apsw.Connection(":memory:")
    assert migrate(db, 1.0) == tuple(m.version for m in known_migrations())
    assert migrate(db, 2.0) == ()
    assert schema_version(db) == known_migrations()[-1].version
    rows = db.execute("SELECT version, name, applied_at FROM schema_migrations").fetchall()
    assert rows[0] == (1, "jobs", 1.0)


def test_a_newer_schema_is_refused_with_what_to_do(tmp_path):
    async def scenario():
        path = tmp_path / "a.db"
        async with SQLiteStore(path) as store:
            await store._write(
                lambda tx: tx.db.execute("INSERT INTO schema_migrations VALUES (999, 'x', 0)")
            )
        with pytest.raises(StoreUnusable, match=r"schema version 999.*upgrade Holdfast"):
            await SQLiteStore(path).open()

    asyncio.run(scenario())


def test_a_migration_that_fails_leaves_nothing_behind(monkeypatch):
    broken = (*known_migrations(), Migration(999, "broken", "CREATE TABLE t (x); NONSENSE"))
    monkeypatch.setattr(migrations, "known_migrations", lambda: broken)
    db = apsw.Connection(":memory:")
    with pytest.raises(apsw.SQLError):
        migrate(db, 1.0)
    assert db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    assert not db.in_transaction


def test_processes_that_open_a_new_file_at_once_all_succeed(tmp_path):
    command = [sys.executable, "-c", _OPEN, str(tmp_path / "a.db")]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert out.strip() == str(known_migrations()[-1].version), err


def test_an_older_library_reads_the_schema(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db"):
            pass

    asyncio.run(scenario())
    db = sqlite3.connect(tmp_path / "a.db")
    assert db.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    db.close()
