"""The schema of a file: applied in order, once, with checksums, and never backwards."""

import asyncio
import subprocess
import sys

import apsw
import pytest

from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest, StoreUnusable
from holdfast.store.migrations import Migration, Schema
from holdfast.store.sqlite.migrations import SCHEMA, migrate, recorded
from holdfast.store.sqlite.store import SQLiteStore

_OPEN = """
import asyncio, sys
from holdfast.store.sqlite.store import SQLiteStore
async def main():
    async with SQLiteStore(sys.argv[1], busy_timeout=30) as store:
        print(await store.schema_version())
asyncio.run(main())
"""
OWN_TABLE = "CREATE TABLE jobs (mine TEXT)"


def test_migrations_are_numbered_without_gaps():
    versions = [migration.version for migration in SCHEMA.migrations]
    assert versions == list(range(1, len(versions) + 1))


def test_a_fresh_file_gets_them_all_and_a_second_run_none():
    db = apsw.Connection(":memory:")
    assert migrate(db) == tuple(each.version for each in SCHEMA.migrations)
    assert migrate(db) == ()
    assert recorded(db) == {each.version: each.checksum for each in SCHEMA.migrations}


def test_a_file_with_the_callers_own_tables_is_migrated_beside_them():
    db = apsw.Connection(":memory:")
    db.execute(OWN_TABLE)
    migrate(db)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema") if name != "jobs"]
    assert all(name.startswith(("holdfast_", "sqlite_")) for name in names)


def test_a_schema_two_versions_ahead_is_refused_and_one_version_ahead_is_not(tmp_path):
    path, ahead = tmp_path / "a.db", SCHEMA.version + 1

    def record(version):
        db = apsw.Connection(str(path))
        db.execute(
            "INSERT INTO holdfast_migrations (version, name, checksum) VALUES (?, 'x', 'x')",
            (version,),
        )
        db.close()

    async def scenario():
        async with SQLiteStore(path):
            pass
        record(ahead)
        async with SQLiteStore(path) as store:
            assert await store.schema_version() == ahead
            assert not await store.missing()
        record(ahead + 1)
        with pytest.raises(StoreUnusable, match=rf"schema version {ahead + 1}.*upgrade Holdfast"):
            await SQLiteStore(path).open()

    asyncio.run(scenario())


def test_a_migration_whose_text_was_changed_is_refused():
    db = apsw.Connection(":memory:")
    migrate(db)
    changed = Schema((Migration(1, "baseline", "SELECT 1"), *SCHEMA.migrations[1:]))
    with pytest.raises(StoreUnusable, match="another text"):
        migrate(db, changed)


def test_a_migration_that_fails_leaves_nothing_behind():
    broken = Schema((*SCHEMA.migrations, Migration(999, "broken", "CREATE TABLE t (x); NONSENSE")))
    db = apsw.Connection(":memory:")
    with pytest.raises(apsw.SQLError):
        migrate(db, broken)
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
        assert out.strip() == str(SCHEMA.version), err


def test_the_script_of_a_missing_file_makes_one_that_lacks_nothing(tmp_path):
    async def scenario():
        store = SQLiteStore(tmp_path / "a.db")
        missing, script = await store.missing(), await store.migration_script()
        assert missing.migrations == SCHEMA.migrations
        assert not store.path.exists()
        db = apsw.Connection(str(store.path))
        db.execute(script)
        db.close()
        assert not await store.missing()
        assert await store.migration_script() == ""

    asyncio.run(scenario())


def test_views_show_jobs_and_attempts_with_real_timestamps(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "a.db") as store:
            await store.enqueue([NewJob("one", "k"), NewJob("two", "k")], now=86400.0)
            (claim,) = (await store.tick("w", (), request(1), now=86401.0)).claims
            done = Finished(claim.lease, Completed('"ok"'))
            (other,) = (await store.tick("w", [done], request(1), now=86403.0)).claims
        return claim.lease.job_id, other.lease.job_id

    def request(limit):
        return ClaimRequest(limit, ("default",), {"k": None}, 60.0)

    first, second = asyncio.run(scenario())
    db = apsw.Connection(str(tmp_path / "a.db"))
    jobs = db.execute(
        "SELECT id, status, created_at, finished_at, result FROM holdfast_jobs_readable"
    )
    assert set(jobs) == {
        (first, "complete", "1970-01-02T00:00:00Z", "1970-01-02T00:00:03Z", '"ok"'),
        (second, "processing", "1970-01-02T00:00:00Z", None, None),
    }
    attempts = db.execute(
        "SELECT job_id, number, started_at, finished_at, outcome FROM holdfast_attempts_readable"
    )
    assert set(attempts) == {
        (first, 1, "1970-01-02T00:00:01Z", "1970-01-02T00:00:03Z", "complete"),
        (second, 1, "1970-01-02T00:00:03Z", None, None),
    }
    db.close()
