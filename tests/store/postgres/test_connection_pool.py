"""Connections are borrowed, awaited, discarded after an interruption, and never lost."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import pytest
from tests.support.waiting import until

from holdfast.jobs.store_port import StoreUnavailable
from holdfast.store.postgres import connection_pool
from holdfast.store.postgres.connection import Database
from holdfast.store.postgres.connection_pool import ConnectionPool


@asynccontextmanager
async def lending(url, most, connect=None):
    """A pool that is closed at the end."""

    async def open_one():
        return await asyncpg.connect(url)

    pool = ConnectionPool(connect or open_one, most)
    try:
        yield pool
    finally:
        await asyncio.wait_for(pool.close(), 20)


def test_a_returned_connection_is_reused(postgres_url):
    async def scenario():
        async with lending(postgres_url, 3) as pool:
            assert pool.take() is None
            first = await pool.acquire()
            pool.release(first, whole=True)
            assert await pool.acquire() is first
            second = await pool.acquire()
            assert second is not first
            pool.release(first, whole=True)
            pool.release(second, whole=True)
            assert pool.take() is second
            pool.release(second, whole=True)

    asyncio.run(scenario())


def test_callers_wait_in_line_when_all_connections_are_in_use(postgres_url):
    async def scenario():
        async with lending(postgres_url, 1) as pool:
            only = await pool.acquire()
            served = []

            async def borrow(name):
                connection = await pool.acquire()
                served.append((name, connection))
                await asyncio.sleep(0)
                pool.release(connection, whole=True)

            waiting = []
            for name in ("a", "b", "c"):
                waiting.append(asyncio.create_task(borrow(name)))
                await asyncio.sleep(0)
            assert served == []
            pool.release(only, whole=True)
            await asyncio.gather(*waiting)
            assert served == [("a", only), ("b", only), ("c", only)]

    asyncio.run(scenario())


def test_a_discarded_connection_makes_room_for_a_waiting_caller(postgres_url):
    async def scenario():
        async with lending(postgres_url, 1) as pool:
            first = await pool.acquire()
            waiting = asyncio.create_task(pool.acquire())
            await asyncio.sleep(0)
            pool.release(first, whole=False)
            second = await asyncio.wait_for(waiting, 20)
            assert first.is_closed()
            assert await second.fetchval("SELECT 1") == 1
            pool.release(second, whole=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("whole", [True, False])
def test_a_caller_that_stops_waiting_keeps_no_connection(postgres_url, whole):
    async def scenario():
        async with lending(postgres_url, 1) as pool:
            only = await pool.acquire()
            early, late = (asyncio.create_task(pool.acquire()) for _ in range(2))
            await asyncio.sleep(0)
            early.cancel()
            await asyncio.sleep(0)
            # Granted and given up at the same moment.
            pool.release(only, whole=whole)
            late.cancel()
            for task in (early, late):
                with pytest.raises(asyncio.CancelledError):
                    await task
            connection = await asyncio.wait_for(pool.acquire(), 20)
            assert (connection is only) is whole
            pool.release(connection, whole=True)

    asyncio.run(scenario())


def test_a_connection_that_was_idle_too_long_is_not_trusted(postgres_url, monkeypatch):
    async def scenario():
        async with lending(postgres_url, 1) as pool:
            first = await pool.acquire()
            pool.release(first, whole=True)
            monkeypatch.setattr(connection_pool, "_IDLE", 0.0)
            second = await pool.acquire()
            assert first.is_closed()
            assert second is not first
            pool.release(second, whole=True)

    asyncio.run(scenario())


def test_a_connection_that_the_server_cut_is_replaced(postgres_url):
    async def scenario():
        async with lending(postgres_url, 1) as pool:
            first = await pool.acquire()
            pool.release(first, whole=True)
            other = await asyncpg.connect(postgres_url)
            await other.fetch("SELECT pg_terminate_backend($1)", first.get_server_pid())
            await other.close()
            await until(first.is_closed)
            second = await pool.acquire()
            assert await second.fetchval("SELECT 1") == 1
            pool.release(second, whole=True)

    asyncio.run(scenario())


def test_a_caller_that_cannot_connect_leaves_its_place_to_the_next(postgres_url):
    async def scenario():
        fails = asyncio.Event()
        tries = 0

        async def connect():
            nonlocal tries
            tries += 1
            if tries == 1:
                await fails.wait()
                raise OSError("nobody there")
            return await asyncpg.connect(postgres_url)

        async with lending(postgres_url, 1, connect) as pool:
            first, second = (asyncio.create_task(pool.acquire()) for _ in range(2))
            await asyncio.sleep(0)
            fails.set()
            with pytest.raises(OSError, match="nobody there"):
                await first
            pool.release(await asyncio.wait_for(second, 20), whole=True)

    asyncio.run(scenario())


def test_closing_waits_for_connections_in_use_and_refuses_waiting_callers(postgres_url):
    async def scenario():
        pool = ConnectionPool(lambda: asyncpg.connect(postgres_url), 1)
        only = await pool.acquire()
        waiting = asyncio.create_task(pool.acquire())
        await asyncio.sleep(0)
        closing = asyncio.create_task(pool.close())
        with pytest.raises(asyncpg.InterfaceError, match="closed"):
            await waiting
        assert not closing.done()
        assert await only.fetchval("SELECT 1") == 1
        pool.release(only, whole=True)
        await asyncio.wait_for(closing, 20)
        assert only.is_closed()
        with pytest.raises(asyncpg.InterfaceError, match="closed"):
            await pool.acquire()

    asyncio.run(scenario())


def test_a_connection_that_is_ready_after_the_end_is_dropped(postgres_url):
    async def scenario():
        opened = []

        async def connect():
            connection = await asyncpg.connect(postgres_url)
            opened.append(connection)
            pool.terminate()
            return connection

        pool = ConnectionPool(connect, 1)
        with pytest.raises(asyncpg.InterfaceError, match="closed"):
            await pool.acquire()
        assert opened[0].is_closed()
        await pool.close()

    asyncio.run(scenario())


def test_terminating_closes_borrowed_and_idle_connections(postgres_url):
    async def scenario():
        pool = ConnectionPool(lambda: asyncpg.connect(postgres_url), 2)
        lent, idle = await pool.acquire(), await pool.acquire()
        pool.release(idle, whole=True)
        pool.terminate()
        assert lent.is_closed()
        assert idle.is_closed()

    asyncio.run(scenario())


def test_a_statement_that_was_cancelled_costs_its_connection_and_no_other_statement(postgres_url):
    async def scenario():
        database = Database(postgres_url, connections=1, timeout=30)
        await database.open()

        async def sleep():
            async with database.connection() as connection:
                await connection.fetch("SELECT pg_sleep(60)")

        sleeping = asyncio.create_task(sleep())
        watcher = await asyncpg.connect(postgres_url)
        await until(
            lambda: watcher.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' "
                "AND datname = current_database()"
            )
        )
        await watcher.close()
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        assert (await asyncio.wait_for(database.rows("read_clock"), 20))[0][0] > 0
        await database.close()

    asyncio.run(scenario())


def test_waiting_too_long_for_a_connection_is_an_outage(postgres_url):
    async def scenario():
        database = Database(postgres_url, connections=1, timeout=1)
        await database.open()
        async with database.connection():
            with pytest.raises(StoreUnavailable, match="no answer in time"):
                await database.rows("read_clock")
        assert await database.rows("read_clock")
        await database.close()

    asyncio.run(scenario())


def test_an_error_of_the_server_costs_no_connection(postgres_url):
    async def scenario():
        database = Database(postgres_url, connections=1, timeout=30)
        await database.open()
        async with database.connection() as before:
            pass
        with pytest.raises(Exception, match="nothing"):
            async with database.connection() as connection:
                await connection.fetch("SELECT nothing")
        async with database.connection() as after:
            assert after is before
        await database.close()

    asyncio.run(scenario())
