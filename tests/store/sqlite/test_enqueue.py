"""Enqueueing inside a caller's own transaction: committed with it or never enqueued."""

import asyncio
import contextlib
import sqlite3

import aiosqlite
import apsw
import apsw.aio
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.joining import NoTransaction
from holdfast.store.sqlite.store import SQLiteStore


def run(tmp_path, scenario):
    async def main():
        async with SQLiteStore(tmp_path / "a.db", busy_timeout=30) as store:
            await scenario(store)

    asyncio.run(main())


@contextlib.contextmanager
def connected(path):
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.set_busy_timeout(30_000)
        yield db


def test_the_callers_rows_and_the_jobs_commit_together_or_not_at_all(tmp_path):
    async def scenario(store):
        with connected(store.path) as db:
            db.execute("CREATE TABLE orders (id)")
            for name, end in (("kept", "COMMIT"), ("lost", "ROLLBACK")):
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO orders VALUES (?)", (name,))
                (answer,) = await store.enqueue_on(db, [NewJob(name, "work", arguments="[1]")])
                assert (answer.id, answer.created) == (name, True)
                assert await store.get(name) is None
                db.execute(end)
            assert db.execute("SELECT id FROM orders").fetchall() == [("kept",)]
        job = await store.get("kept")
        assert job.arguments == "[1]"
        assert await store.get("lost") is None
        assert (await store.stats()).lanes[0].ready == 1
        assert [event.name for event in await store.events("kept")] == ["queued"]

    run(tmp_path, scenario)


def test_a_with_block_of_the_connection_is_a_transaction(tmp_path):
    async def scenario(store):
        with connected(store.path) as db:
            with db:
                await store.enqueue_on(db, [NewJob("a", "work")])
            with contextlib.suppress(ZeroDivisionError), db:
                await store.enqueue_on(db, [NewJob("b", "work")])
                raise ZeroDivisionError
        assert [job.id for job in (await store.list_jobs()).jobs] == ["a"]

    run(tmp_path, scenario)


def test_an_apsw_connection_may_make_rows_its_own_way(tmp_path):
    def by_name(cursor, row):
        return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}

    async def scenario(store):
        await store.enqueue([NewJob("old", "work", dedup_key="k")])
        with connected(store.path) as db:
            db.execute("BEGIN IMMEDIATE")
            db.row_trace = by_name
            answers = await store.enqueue_on(
                db, [NewJob("a", "work", queue="q"), NewJob("b", "work", dedup_key="k")]
            )
            assert db.row_trace is by_name
            db.row_trace = None
            db.execute("COMMIT")
        assert [(answer.id, answer.created) for answer in answers] == [("a", True), ("old", False)]
        assert await store.get("a") is not None

    run(tmp_path, scenario)


def test_a_joined_commit_wakes_the_worker(tmp_path):
    async def scenario(store):
        mark = (await store.tick("w")).mark
        with connected(store.path) as db:
            db.execute("BEGIN IMMEDIATE")
            await store.enqueue_on(db, [NewJob("a", "work")])
            waiting = asyncio.create_task(store.wait_for_work(mark, 30))
            await asyncio.sleep(0)
            db.execute("COMMIT")
            assert await waiting

    run(tmp_path, scenario)


def test_joining_keeps_other_writers_out_from_the_first_statement(tmp_path):
    async def scenario(store):
        with connected(store.path) as db, connected(store.path) as other:
            other.set_busy_timeout(0)
            db.execute("BEGIN")
            await store.enqueue_on(db, [])
            with pytest.raises(apsw.BusyError):
                other.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")

    run(tmp_path, scenario)


@pytest.mark.parametrize("name", ["other.db", ":memory:"])
def test_another_file_is_refused(tmp_path, name):
    async def scenario(store):
        file = name if name == ":memory:" else tmp_path / name
        with connected(file) as db:
            db.execute("CREATE TABLE mine (n); BEGIN")
            with pytest.raises(TypeError, match="open on another file"):
                await store.enqueue_on(db, [NewJob("a", "work")])

    run(tmp_path, scenario)


def test_a_connection_without_a_transaction_is_refused(tmp_path):
    async def scenario(store):
        refused = pytest.raises(NoTransaction, match="execute BEGIN IMMEDIATE first")
        with connected(store.path) as db, refused:
            await store.enqueue_on(db, [NewJob("a", "work")])
        assert await store.get("a") is None

    run(tmp_path, scenario)


@contextlib.asynccontextmanager
async def by_sqlite3(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        yield connection


@contextlib.asynccontextmanager
async def by_aiosqlite(path):
    async with aiosqlite.connect(path) as connection:
        yield connection


@contextlib.asynccontextmanager
async def by_sqlalchemy(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@contextlib.asynccontextmanager
async def by_sqlalchemy_session(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with Session(engine) as session:
        yield session
    engine.dispose()


@contextlib.asynccontextmanager
async def by_async_sqlalchemy(path):
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@contextlib.asynccontextmanager
async def by_async_sqlalchemy_session(path):
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


REASON = (
    r"takes an apsw connection to .*a\.db, got {module}.*second copy of SQLite.*undo each other's "
    r"file locks.*Enqueue without connection=.*apsw\.Connection.*PostgreSQL"
)


@pytest.mark.parametrize(
    ("driver", "module"),
    [
        (by_sqlite3, r"sqlite3\.Connection"),
        (by_aiosqlite, "aiosqlite"),
        (by_sqlalchemy, "sqlalchemy"),
        (by_sqlalchemy_session, "sqlalchemy"),
        (by_async_sqlalchemy, "sqlalchemy"),
        (by_async_sqlalchemy_session, "sqlalchemy"),
    ],
)
def test_a_connection_of_pythons_sqlite3_is_refused_before_anything_is_begun(
    tmp_path, driver, module
):
    # On a separate file: a second copy of SQLite must not open the store's.
    async def scenario(store):
        async with driver(tmp_path / "other.db") as connection:
            with pytest.raises(TypeError, match=REASON.format(module=module)):
                await store.enqueue_on(connection, [NewJob("a", "work")])
            begun = connection.in_transaction
            assert not (begun() if callable(begun) else begun)
        assert (await store.list_jobs()).jobs == ()

    run(tmp_path, scenario)


@pytest.mark.parametrize("connection", [object(), "sqlite:///a.db", 7])
def test_an_object_that_is_not_a_connection_is_refused(tmp_path, connection):
    async def scenario(store):
        with pytest.raises(TypeError, match=r"takes an apsw connection to .*, got builtins\.\w+"):
            await store.enqueue_on(connection, [NewJob("a", "work")])

    run(tmp_path, scenario)


def test_an_apsw_connection_in_async_mode_is_refused(tmp_path):
    async def scenario(store):
        with apsw.aio.contextvar_set(apsw.async_controller, apsw.aio.AsyncIO):
            connection = await apsw.Connection.as_async(str(store.path))
        try:
            await connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(TypeError, match="in its ordinary mode, not async"):
                await store.enqueue_on(connection, [NewJob("a", "work")])
        finally:
            await connection.aclose()

    run(tmp_path, scenario)


def test_a_key_is_taken_over_with_the_callers_commit(tmp_path):
    rule = DedupRule(unfinished=True)

    async def scenario(store):
        await store.enqueue([NewJob("done", "work", dedup_key="k", dedup_rule=rule)])
        request = ClaimRequest(1, ("default",), {"work": None})
        (claim,) = (await store.tick("w", claim=request)).claims
        await store.tick("w", [Finished(claim.lease, Completed())])
        with connected(store.path) as db:
            for name, end in (("lost", "ROLLBACK"), ("new", "COMMIT")):
                assert (await store.get("done")).dedup_key == "k"
                db.execute("BEGIN IMMEDIATE")
                job = NewJob(name, "work", dedup_key="k", dedup_rule=rule)
                (answer,) = await store.enqueue_on(db, [job])
                assert answer.created
                db.execute(end)
        assert (await store.get("done")).dedup_key is None
        assert (await store.get("new")).dedup_key == "k"

    run(tmp_path, scenario)
