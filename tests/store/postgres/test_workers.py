"""Which workers live: a session lock on the heartbeat's connection, with time to reconnect."""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import asyncpg
from tests.store.postgres.conftest import ANY, jobs
from tests.support.postgres import obtain
from tests.support.waiting import until
from tests.support.workers import QUICK, EventLog

from holdfast.jobs.declare.app import App
from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.job_events import JobClaimed, StoreBack, StoreLost
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import Rescued, StoreUnavailable
from holdfast.jobs.worker.worker import Worker
from holdfast.store.postgres.store import PostgresStore


async def sessions(connection):
    """Return the backends that hold the lock of a worker."""
    return await connection.fetch(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint >> 16 = 18503"
    )


async def cut(connection):
    """End the sessions of all workers, and return when their locks are free."""
    for row in await sessions(connection):
        await connection.fetch("SELECT pg_terminate_backend($1)", row["pid"])

    async def none_left():
        return not await sessions(connection)

    await until(none_left)


async def registered(connection):
    return {row["id"] for row in await connection.fetch("SELECT id FROM holdfast.workers")}


def test_a_worker_that_reconnects_within_three_seconds_keeps_its_jobs(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            beats = store.heartbeats()
            await beats.register("w")
            await store.enqueue(jobs(1))
            await store.tick("w", claim=ANY, now=100.0)
            await cut(connection)
            assert await store.rescue(now=101.0) == Rescued()
            assert await store.rescue(now=103.9) == Rescued()
            await until(lambda: reconnected(beats))
            assert await store.rescue(now=110.0) == Rescued()
            await cut(connection)
            assert await store.rescue(now=120.0) == Rescued()
            assert len((await store.rescue(now=123.0)).requeued) == 1
            assert await registered(connection) == set()
            await connection.close()

    async def reconnected(beats):
        before = beats._connection
        with suppress(StoreUnavailable):  # the call that notices the cut
            await beats.register("w")
        return beats._connection not in (before, None)

    asyncio.run(scenario())


def test_a_worker_that_ended_is_forgotten(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            ended, living = store.heartbeats(), store.heartbeats()
            await ended.register("ended")
            await living.register("living")
            await ended.close()
            await until(lambda: one_left(connection))
            for now in (100.0, 103.0):
                await store.rescue(now=now)
            assert await registered(connection) == {"living"}
            await living.close()
            await connection.close()

    async def one_left(connection):
        return len(await sessions(connection)) == 1

    asyncio.run(scenario())


def test_after_a_restart_of_the_server_a_worker_has_fifteen_seconds_to_reconnect(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            beats = store.heartbeats()
            await beats.register("w")
            await store.enqueue(jobs(1))
            await store.tick("w", claim=ANY, now=100.0)
            await cut(connection)
            # As a server says that started after the worker registered, or a promoted standby.
            await connection.execute(
                "UPDATE holdfast.workers SET server_started = server_started - interval '1 day'"
            )
            assert await store.rescue(now=101.0) == Rescued()
            assert await store.rescue(now=115.9) == Rescued()
            assert len((await store.rescue(now=116.0)).requeued) == 1
            await connection.close()

    asyncio.run(scenario())


def test_a_heartbeat_that_reconnects_registers_its_worker_again(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            beats = store.heartbeats()
            await beats.register("w")
            await cut(connection)
            await until(lambda: asked(beats))
            assert len(await sessions(connection)) == 1
            await beats.close()

            async def none_left():
                return not await sessions(connection)

            await until(none_left)
            await connection.close()

    async def asked(beats):
        try:
            return await beats.requests("w") == WorkerRequests()
        except Exception:
            return False  # the cut is noticed by the first statement

    asyncio.run(scenario())


def test_behind_a_pooler_no_worker_is_registered(bench):
    """A pooler tells its clients of another backend than the one it gives them."""

    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            await store.heartbeats().register("w")
            assert await registered(connection) == {"w"}
            assert not await connection.fetchval("SELECT holdfast.register_worker('w', 1)")
            assert await registered(connection) == set()
            await store.enqueue(jobs(1))
            await store.tick("w", claim=ANY, now=100.0)
            for now in (101.0, 110.0, 200.0):
                assert await store.rescue(now=now) == Rescued()
            await connection.close()

    asyncio.run(scenario())


def test_nothing_is_claimed_before_the_heartbeat_is_connected():
    """All connections are taken when the worker starts; jobs it claimed would lose their leases."""
    app, told = App("a"), EventLog()

    @app.job()
    async def work(ctx): ...

    server = obtain(
        fsync=False, settings={"max_connections": "12", "superuser_reserved_connections": "0"}
    )

    async def scenario():
        await PostgresStore(server.url()).migrate()
        async with AsyncExitStack() as stack:
            # It takes all its connections before the rest is taken by others.
            store = await stack.enter_async_context(PostgresStore(server.url(), connections=2))
            await asyncio.gather(*(store.ping() for _ in range(10)))
            await store.wait_for_work(-1, 0.01)
            others = []
            try:
                while True:
                    others.append(await asyncpg.connect(server.url()))
            except asyncpg.TooManyConnectionsError:
                pass
            await store.enqueue([NewJob("job", work.kind.name)])
            kinds = {kind.name: kind for kind in app.kinds}
            worker = Worker(store, kinds, replace(QUICK, maintenance=None), listeners=[told])
            running = asyncio.create_task(worker.run())
            await told.wait(StoreLost)
            assert not worker.reachable
            assert (await store.get("job")).status == "queued"
            for other in others:
                await other.close()
            await told.wait(StoreBack)
            await told.wait(JobClaimed)
            worker.stop()
            await running
            assert (await store.get("job")).attempt_count == 1

    try:
        asyncio.run(scenario())
    finally:
        server.close()
