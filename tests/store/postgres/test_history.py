"""Page numbers: a stream shows events in order, and none too late."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg
from tests.store.postgres.conftest import jobs

from holdfast.jobs.model import NewJob

LOCKS = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"


@asynccontextmanager
async def connected(url):
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def add(store, connection, name):
    await store.enqueue_on(connection, [NewJob(name, "work")])


async def shown(store):
    return [event.job_id for event in await store.changes_since(0)]


def test_an_open_transaction_with_many_enqueues_takes_no_lock_of_ours(bench):
    """Its events get their numbers when it commits, so it need not announce them before."""

    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            async with connection.transaction():
                for number in range(50):
                    await add(store, connection, f"joined-{number}")
                    await store.enqueue([NewJob(f"other-{number}", "work")])
                assert await connection.fetchval(LOCKS) == 0
            assert await connection.fetchval(LOCKS) == 0
            assert len(await shown(store)) == 100

    asyncio.run(scenario())


def test_a_callers_open_transaction_does_not_stop_the_stream_of_changes(bench):
    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            async with connection.transaction():
                await add(store, connection, "joined")
                await store.enqueue([NewJob("other", "work")])
                assert await shown(store) == ["other"]
                seen = await store.last_sequence()
            (event,) = await store.changes_since(seen)
            assert (event.job_id, event.name) == ("joined", "queued")
            assert [each.sequence for each in await store.events("joined")] == [event.sequence]

    asyncio.run(scenario())


def test_a_rolled_back_savepoint_leaves_no_event(bench):
    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            async with connection.transaction():
                savepoint = connection.transaction()
                await savepoint.start()
                await add(store, connection, "undone")
                await savepoint.rollback()
                await add(store, connection, "joined")
                await store.enqueue([NewJob("other", "work")])
                assert await shown(store) == ["other"]
            assert await shown(store) == ["other", "joined"]

    asyncio.run(scenario())


async def cancel(connection, name):
    """Take an event number by a statement of ours, which announces it."""
    assert await connection.fetchval("SELECT holdfast.cancel($1, NULL)", name) == "done"


async def shown_since(store, sequence):
    return [event.job_id for event in await store.changes_since(sequence)]


def test_a_transaction_announces_its_numbers_once(bench):
    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            await store.enqueue(jobs(20))
            async with connection.transaction():
                for job in jobs(20):
                    await cancel(connection, job.id)
                assert await connection.fetchval(LOCKS) == 1
            assert await connection.fetchval(LOCKS) == 0

    asyncio.run(scenario())


def test_a_rolled_back_savepoint_leaves_the_next_statement_to_announce_itself(bench):
    """The savepoint's lock goes with it, so the transaction needs another one."""

    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            await store.enqueue([NewJob("a", "work"), NewJob("b", "work")])
            start = await store.last_sequence()
            async with connection.transaction():
                savepoint = connection.transaction()
                await savepoint.start()
                await cancel(connection, "a")
                await savepoint.rollback()
                assert await connection.fetchval(LOCKS) == 0
                await cancel(connection, "b")
                assert await connection.fetchval(LOCKS) == 1
                await store.enqueue([NewJob("other", "work")])
                assert await shown_since(store, start) == []
            assert await shown_since(store, start) == ["b", "other"]

    asyncio.run(scenario())


def test_a_rolled_back_savepoint_keeps_earlier_announcements(bench):
    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            await store.enqueue([NewJob("a", "work"), NewJob("b", "work")])
            start = await store.last_sequence()
            async with connection.transaction():
                await cancel(connection, "a")
                savepoint = connection.transaction()
                await savepoint.start()
                await cancel(connection, "b")
                await savepoint.rollback()
                await store.enqueue([NewJob("other", "work")])
                assert await shown_since(store, start) == []
            assert await shown_since(store, start) == ["a", "other"]

    asyncio.run(scenario())


def test_announcements_of_a_released_savepoint_last_until_the_transaction_ends(bench):
    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            await store.enqueue([NewJob("inner", "work"), NewJob("outer", "work")])
            start = await store.last_sequence()
            async with connection.transaction():
                async with connection.transaction():
                    await cancel(connection, "inner")
                await store.enqueue([NewJob("other", "work")])
                await cancel(connection, "outer")
                assert await connection.fetchval(LOCKS) == 1
                assert await shown_since(store, start) == []
            assert await shown_since(store, start) == ["inner", "other", "outer"]

    asyncio.run(scenario())


def test_the_next_transaction_of_a_connection_announces_itself(bench):
    async def scenario():
        async with bench.stores(1) as (store,), connected(bench.url) as connection:
            await store.enqueue([NewJob("first", "work"), NewJob("second", "work")])
            start = await store.last_sequence()
            async with connection.transaction():
                await cancel(connection, "first")
            async with connection.transaction():
                await cancel(connection, "second")
                await store.enqueue([NewJob("other", "work")])
                assert await shown_since(store, start) == ["first"]
            assert await shown_since(store, start) == ["first", "second", "other"]

    asyncio.run(scenario())
