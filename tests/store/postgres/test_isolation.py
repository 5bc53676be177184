"""Isolation levels: ours is READ COMMITTED whatever the default, a caller's may be any."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import psycopg
import pytest
from tests.store.postgres.conftest import a_session_waits

from holdfast.jobs.model import NewJob
from holdfast.store.postgres.connection import Database
from holdfast.store.postgres.store import PostgresStore

LEVELS = ["repeatable read", "serializable"]

# Lets a test hold a reader between the moment its statement begins and the moment it asks up to
# which event everything is committed.
GATE = 1
GATED = f"""
ALTER FUNCTION holdfast.settled_sequence RENAME TO settled_behind_gate;
CREATE FUNCTION holdfast.settled_sequence() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock({GATE});
    RETURN holdfast.settled_behind_gate();
END
$$;
"""


@pytest.fixture(params=LEVELS)
def default(request, bench):
    """The default isolation level of the role that the store connects as."""
    asyncio.run(
        bench.execute(
            f"ALTER ROLE CURRENT_USER IN DATABASE {bench.url.rpartition('/')[2]} "
            f"SET default_transaction_isolation = '{request.param}'"
        )
    )
    assert asyncio.run(bench.execute("SHOW transaction_isolation")) == [(request.param,)]
    return request.param


def test_every_connection_of_ours_is_read_committed(bench, default):
    async def scenario():
        database = Database(bench.url, connections=1, timeout=30)
        await database.open()
        levels = []

        async def ask(connection):
            levels.append(await connection.fetchval("SHOW transaction_isolation"))

        async with database.connection() as connection:
            await ask(connection)
        await database.transaction(ask)
        own = await database.connect()
        await ask(own)
        await own.close()
        await database.close()
        assert levels == ["read committed"] * 3

    asyncio.run(scenario())


def test_a_stream_misses_nothing_under_another_default(bench, default):
    """An event committed while a reader's statement runs is not skipped for a later one."""

    async def scenario():
        await bench.execute(GATED)
        async with bench.stores(1) as (store,):
            slow, gate = [await asyncpg.connect(bench.url) for _ in range(2)]
            transaction = slow.transaction(isolation="read_committed")
            await transaction.start()
            await store.enqueue_on(slow, [NewJob("slow", "work")])
            await store.enqueue([NewJob("quick", "work")])
            await gate.execute(f"SELECT pg_advisory_lock({GATE})")
            reading = asyncio.create_task(store.changes_since(0))
            await a_session_waits(gate)
            await transaction.commit()
            await gate.execute(f"SELECT pg_advisory_unlock({GATE})")
            seen = await reading
            seen += await store.changes_since(seen[-1].sequence if seen else 0)
            # A caller's events are numbered when its transaction commits.
            assert [event.job_id for event in seen] == ["quick", "slow"]
            for connection in (slow, gate):
                await connection.close()

    asyncio.run(scenario())


@asynccontextmanager
async def asyncpg_at(url, level):
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation=level.replace(" ", "_")):
            await connection.fetch("SELECT FROM holdfast.jobs")
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def psycopg_at(url, level):
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_").upper()]
        connection.execute("SELECT FROM holdfast.jobs")
        yield connection


FAILURES = (asyncpg.SerializationError, psycopg.errors.SerializationFailure)
MET = {
    "key": [NewJob("new", "work", dedup_key="k")],
    "id": [NewJob("old", "work")],
    "both": [NewJob("old", "work", dedup_key="k")],
    "among others": [NewJob(f"{n}", "work", dedup_key=f"{n}") for n in range(5)]
    + [NewJob("new", "work", dedup_key="k")],
}


@pytest.mark.parametrize("given", MET.values(), ids=MET)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("begin", [asyncpg_at, psycopg_at])
def test_a_row_that_the_callers_snapshot_cannot_see_is_a_serialization_failure(
    bench, begin, level, given
):
    """SQLSTATE 40001, at which callers of these levels try again; the second try finds the job."""

    async def scenario():
        async with bench.stores(1) as (store,):
            async with begin(bench.url, level) as connection:
                await store.enqueue([NewJob("old", "work", dedup_key="k")])
                with pytest.raises(FAILURES):
                    await store.enqueue_on(connection, given)
            assert [job.id for job in (await store.list_jobs()).jobs] == ["old"]
            async with begin(bench.url, level) as connection:
                answers = await store.enqueue_on(connection, given)
            assert (answers[-1].id, answers[-1].created) == ("old", False)
            assert len((await store.list_jobs()).jobs) == len(given)

    asyncio.run(scenario())


@pytest.mark.parametrize("level", LEVELS)
def test_a_lane_that_is_newer_than_the_callers_snapshot_is_a_serialization_failure(bench, level):
    """The second try finds it."""
    new = [NewJob("a", "new-kind", queue="new-queue")]

    async def scenario():
        async with bench.stores(1) as (store,):
            async with asyncpg_at(bench.url, level) as connection:
                with pytest.raises(FAILURES):
                    await store.enqueue_on(connection, new)
            async with asyncpg_at(bench.url, level) as connection:
                await store.enqueue_on(connection, new)
        async with PostgresStore(bench.url) as store:
            assert (await store.get("a")).queue == "new-queue"

    asyncio.run(scenario())
