"""Heartbeats: on their own connection, without waiting for a lock."""

import asyncio
import contextlib
import sys
import threading
import time

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, jobs
from tests.support.silent_proxy import SilentProxy
from tests.support.waiting import until

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import Extended, StoreUnavailable
from holdfast.jobs.worker.heartbeat import Heartbeat
from holdfast.store.postgres.store import PostgresStore

BUSY = 7.0
"""Seconds more that a busy machine may take."""


def test_a_heartbeat_skips_a_locked_job(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(2))
            leases = [claim.lease for claim in (await store.tick("w", claim=ANY)).claims]
            other = await asyncpg.connect(bench.url)
            async with other.transaction():
                await other.execute(
                    "SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE", leases[0].job_id
                )
                beats = store.heartbeats()
                extended = await asyncio.wait_for(beats.extend(leases, 900), 30)
            assert extended == Extended()
            first, second = [await store.get(lease.job_id) for lease in leases]
            assert first.lease_expires_at == leases[0].expires_at
            assert second.lease_expires_at > leases[1].expires_at + 500
            await other.close()

    asyncio.run(scenario())


def test_no_leases_need_no_connection():
    async def scenario():
        store = PostgresStore("postgresql://127.0.0.1:1/nowhere")
        beats = store.heartbeats()
        assert await beats.extend([], 60) == Extended()
        await beats.close()

    asyncio.run(scenario())


def test_a_store_closes_connections_that_a_thread_left_open(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(1))
            leases = [claim.lease for claim in (await store.tick("w", claim=ANY)).claims]
            beats = store.heartbeats()
            beaten, leave = threading.Event(), threading.Event()

            def live():
                async def main():
                    await beats.extend(leases, 60)
                    beaten.set()
                    while not leave.is_set():
                        await asyncio.sleep(0.01)

                asyncio.run(main())

            thread = threading.Thread(target=live)
            thread.start()
            await asyncio.to_thread(beaten.wait)
        leave.set()
        await asyncio.to_thread(thread.join)
        connection = await asyncpg.connect(bench.url)
        for _ in range(1200):
            others = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            if not others:
                break
            await asyncio.sleep(0.05)
        await connection.close()
        assert others == 0

    asyncio.run(scenario())


def test_a_connection_that_was_cut_costs_one_beat_at_most(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(1))
            leases = [claim.lease for claim in (await store.tick("w", claim=ANY)).claims]
            beats = store.heartbeats()
            connection = await asyncpg.connect(bench.url)

            async def pids():
                rows = await connection.fetch(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                )
                return {row["pid"] for row in rows}

            others = await pids()
            await beats.extend(leases, 60)
            (pid,) = await pids() - others
            await connection.fetch("SELECT pg_terminate_backend($1)", pid)
            with contextlib.suppress(
                StoreUnavailable
            ):  # if the broken connection is not noticed earlier
                await beats.extend(leases, 60)
            assert (await beats.extend(leases, 60)).lost == ()
            assert pid not in await pids()
            await connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("call", ["extend", "requests"])
def test_a_connection_on_which_a_call_was_given_up_is_left(bench, call):
    async def scenario():
        proxy = SilentProxy(bench.url)
        async with bench.stores(1) as (store,), proxy.serving():
            await store.enqueue(jobs(1))
            leases = [claim.lease for claim in (await store.tick("w", claim=ANY)).claims]
            beats = PostgresStore(proxy.url).heartbeats()
            await beats.register("w")
            calls = {
                "extend": lambda: beats.extend(leases, 60),
                "requests": lambda: beats.requests("w"),
            }
            proxy.go_silent()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(calls[call](), 0.2)
            await asyncio.wait_for(calls[call](), 30)
            await beats.close()

    asyncio.run(scenario())


def test_a_check_of_a_registered_worker_is_one_statement(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            beats = store.heartbeats()
            heartbeat = Heartbeat(
                "w", lambda: beats, {}, lease_seconds=300.0, extend_every=30.0,
                clock=SYSTEM_CLOCK, outage=Outage("w", SYSTEM_CLOCK, []),
                on_change=lambda changes: None,
            )  # fmt: skip
            await heartbeat.check()
            assert heartbeat.registered
            statements = []
            beats._connection.add_query_logger(statements.append)
            await heartbeat.check()
            await asyncio.sleep(0)  # the logger is called from the loop
            assert len(statements) == 1
            await beats.close()

    asyncio.run(scenario())


def test_an_idle_worker_whose_connection_went_silent_is_registered_again_in_time(bench):
    """Before it counts as dead, which is 3 s after its session has ended."""

    async def scenario():
        proxy = SilentProxy(bench.url)
        async with bench.stores(1), proxy.serving():
            beats = PostgresStore(proxy.url).heartbeats()
            heartbeat = Heartbeat(
                "w", lambda: beats, {}, lease_seconds=300.0, extend_every=30.0,
                clock=SYSTEM_CLOCK, outage=Outage("w", SYSTEM_CLOCK, []),
                on_change=lambda changes: None,
            )  # fmt: skip
            heartbeat.start()
            try:
                await until(lambda: heartbeat.registered)
                before, began = beats._connection, time.monotonic()
                proxy.go_silent()
                await until(lambda: beats._connection not in (before, None), 3.0 + BUSY)
                sys.stdout.write(f"\nseconds: {time.monotonic() - began}\n")
                await until(lambda: heartbeat.registered)
            finally:
                heartbeat.stop()
                await asyncio.to_thread(heartbeat.join, 30)

    asyncio.run(scenario())
