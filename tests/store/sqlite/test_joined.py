"""Enqueueing inside a caller's own transaction: committed or never enqueued."""

import asyncio
import sqlite3

import apsw
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from holdfast.jobs.model import NewJob
from holdfast.store.joining import NoTransaction
from holdfast.store.sqlite import joined
from holdfast.store.sqlite.store import SQLiteStore


def run(tmp_path, scenario):
    async def main():
        async with SQLiteStore(tmp_path / "a.db", busy_timeout=30) as store:
            await store._write(lambda tx: tx.db.execute("CREATE TABLE orders (id)"))
            await scenario(store)

    asyncio.run(main())


def test_a_sqlite3_transaction_commits_both_or_neither(tmp_path):
    async def scenario(store):
        db = sqlite3.connect(store.path, timeout=30)
        for name, end in (("kept", db.commit), ("lost", db.rollback)):
            db.execute("INSERT INTO orders VALUES (?)", (name,))
            (answer,) = await store.enqueue_on(db, [NewJob(name, "work", arguments="[1]")])
            assert (answer.id, answer.created) == (name, True)
            end()
        job = await store.get("kept")
        assert job is not None
        assert job.arguments == "[1]"
        assert await store.get("lost") is None
        assert db.execute("SELECT id FROM orders").fetchall() == [("kept",)]
        db.close()
        stats = await store.stats()
        assert stats.lanes[0].ready == 1
        assert [event.name for event in await store.events("kept")] == ["queued"]

    run(tmp_path, scenario)


def test_an_apsw_transaction_joins_too(tmp_path):
    async def scenario(store):
        db = apsw.Connection(str(store.path))
        db.execute("BEGIN IMMEDIATE")
        await store.enqueue_on(db, [NewJob("a", "work"), NewJob("b", "work")])
        assert await store.get("a") is None
        db.execute("COMMIT")
        db.close()
        assert await store.get("b") is not None

    run(tmp_path, scenario)


def by_name(cursor, row):
    """Return a row as callers like it."""
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


class Careful(sqlite3.Connection):
    """A caller's own connection, whose cursors are not ours to use."""

    def cursor(self, *_):
        raise AssertionError("a cursor of the caller's making")


@pytest.mark.parametrize(
    "make",
    [
        {"row_factory": by_name},
        {"row_factory": sqlite3.Row},
        {"text_factory": bytes},
        {"text_factory": lambda text: f"<{text!r}>"},
    ],
    ids=["dicts", "rows", "bytes", "strange"],
)
def test_a_sqlite3_connection_may_make_rows_and_text_its_own_way(tmp_path, make):
    async def scenario(store):
        await store.enqueue([NewJob("old", "work", dedup_key="k")])
        db = sqlite3.connect(store.path, timeout=30, factory=Careful)
        for name, value in make.items():
            setattr(db, name, value)
        answers = await store.enqueue_on(
            db, [NewJob("a", "work", queue="q"), NewJob("b", "work", dedup_key="k")]
        )
        assert [(answer.id, answer.created) for answer in answers] == [("a", True), ("old", False)]
        for name, value in make.items():
            assert getattr(db, name) == value
        db.commit()
        db.close()
        assert await store.get("a") is not None

    run(tmp_path, scenario)


def test_an_apsw_connection_may_make_rows_its_own_way(tmp_path):
    async def scenario(store):
        await store.enqueue([NewJob("old", "work", dedup_key="k")])
        db = apsw.Connection(str(store.path))
        db.execute("BEGIN IMMEDIATE")
        db.row_trace = by_name
        answers = await store.enqueue_on(
            db, [NewJob("a", "work", queue="q"), NewJob("b", "work", dedup_key="k")]
        )
        assert [(answer.id, answer.created) for answer in answers] == [("a", True), ("old", False)]
        assert db.row_trace is by_name
        db.row_trace = None
        db.execute("COMMIT")
        db.close()
        assert await store.get("a") is not None

    run(tmp_path, scenario)


def test_sqlalchemy_connections_and_sessions_join_too(tmp_path):
    async def scenario(store):
        engine = sqlalchemy.create_engine(f"sqlite:///{store.path}")
        with engine.begin() as connection:
            await store.enqueue_on(connection, [NewJob("a", "work", dedup_key="k")])
        with Session(engine) as session:
            (twin,) = await store.enqueue_on(session, [NewJob("b", "work", dedup_key="k")])
            assert (twin.id, twin.created) == ("a", False)
            await store.enqueue_on(session, [NewJob("c", "work")])
            session.rollback()
        engine.dispose()
        assert await store.get("a") is not None
        assert await store.get("c") is None

    run(tmp_path, scenario)


def test_a_joined_commit_wakes_the_worker(tmp_path):
    async def scenario(store):
        mark = (await store.tick("w")).mark
        db = sqlite3.connect(store.path, timeout=30)
        await store.enqueue_on(db, [NewJob("a", "work")])
        waiting = asyncio.create_task(store.wait_for_work(mark, 30))
        await asyncio.sleep(0)
        db.commit()
        db.close()
        assert await waiting

    run(tmp_path, scenario)


def test_another_file_is_refused(tmp_path):
    async def scenario(store):
        db = sqlite3.connect(tmp_path / "other.db")
        with pytest.raises(TypeError, match="another file"):
            await store.enqueue_on(db, [NewJob("a", "work")])
        db.close()
        memory = sqlite3.connect(":memory:")
        with pytest.raises(TypeError, match="another file"):
            await store.enqueue_on(memory, [NewJob("a", "work")])
        memory.close()

    run(tmp_path, scenario)


def test_another_database_is_refused(tmp_path, monkeypatch):
    class Elsewhere:
        database = "postgresql"

    async def scenario(store):
        monkeypatch.setattr(joined, "join", lambda connection: Elsewhere())
        with pytest.raises(TypeError, match="same database"):
            await store.enqueue_on(object(), [NewJob("a", "work")])

    run(tmp_path, scenario)


def test_a_connection_without_a_transaction_is_refused(tmp_path):
    async def scenario(store):
        db = apsw.Connection(str(store.path))
        with pytest.raises(NoTransaction):
            await store.enqueue_on(db, [NewJob("a", "work")])
        db.close()

    run(tmp_path, scenario)


def test_where_two_libraries_would_damage_the_file_the_other_is_refused(tmp_path, monkeypatch):
    async def scenario(store):
        monkeypatch.setattr(joined, "lock_by_open_file", lambda: False)
        db = sqlite3.connect(store.path)
        with pytest.raises(TypeError, match="pass an apsw connection"):
            await store.enqueue_on(db, [NewJob("a", "work")])
        db.close()

    run(tmp_path, scenario)
