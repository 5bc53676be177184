"""Enqueues that count against an owner's limit keep no other owner waiting."""

import asyncio

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, a_session_waits

from holdfast.jobs.exceptions import TooManyJobs
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreBusy

LIMIT = {"alice": 100}


def of_alice(number):
    return [NewJob(f"alice-{number}", "work", owner="alice")]


class AnotherProcess:
    """A connection that holds the lock of alice, as a call in another process does."""

    def __init__(self, url):
        self._url = url

    async def __aenter__(self):
        self.connection = await asyncpg.connect(self._url)
        self.transaction = self.connection.transaction()
        await self.transaction.start()
        await self.connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('holdfast enqueue alice', 0))"
        )
        return self

    async def __aexit__(self, *_):
        await self.connection.close()


def test_calls_that_wait_for_one_owner_leave_the_connections_to_others(bench):
    async def scenario():
        async with bench.stores(1, connections=2) as (store,):
            async with AnotherProcess(bench.url) as other:
                waiting = [
                    asyncio.create_task(store.enqueue(of_alice(n), most=LIMIT)) for n in range(6)
                ]
                await a_session_waits(other.connection)
                async with asyncio.timeout(5):
                    await store.enqueue([NewJob("bob", "work", owner="bob")], most={"bob": 100})
                    claims = (await store.tick("worker", claim=ANY)).claims
                    assert [claim.job_id for claim in claims] == ["bob"]
                    assert await store.unfinished_jobs("alice", at_most=10) == 0
            await asyncio.gather(*waiting)
            assert await store.unfinished_jobs("alice", at_most=10) == 6

    asyncio.run(scenario())


def test_the_wait_for_an_owner_locked_by_another_process_ends(bench, monkeypatch):
    monkeypatch.setattr(
        "holdfast.store.postgres.enqueue._WAIT_BRIEFLY", "SET LOCAL lock_timeout = '100ms'"
    )

    async def scenario():
        async with bench.stores(1, connections=1) as (store,):
            async with AnotherProcess(bench.url):
                with pytest.raises(StoreBusy, match="lock timeout"):
                    await asyncio.wait_for(store.enqueue(of_alice(1), most=LIMIT), 5)
            await store.enqueue(of_alice(2), most=LIMIT)
            # The bound ends with the transaction, so the connection is as it was.
            async with store._database.connection() as connection:
                assert await connection.fetchval("SHOW lock_timeout") == "0"

    asyncio.run(scenario())


def test_the_wait_for_calls_of_the_same_process_ends(bench):
    async def scenario():
        async with bench.stores(1, connections=2, timeout=1.0) as (store,):
            async with AnotherProcess(bench.url) as other:
                waiting = [
                    asyncio.create_task(store.enqueue(of_alice(n), most=LIMIT)) for n in range(6)
                ]
                await a_session_waits(other.connection)
                async with asyncio.timeout(8):
                    found = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in found[2:]] == [StoreBusy] * 4
            await store.enqueue(of_alice(9), most=LIMIT)

    asyncio.run(scenario())


def test_bulks_for_the_same_owners_in_another_order_do_not_deadlock(bench):
    async def scenario():
        async with bench.stores(2) as stores:
            orders = [("ann", "bob"), ("bob", "ann")] * 8
            bulks = [
                stores[n // 2 % 2].enqueue(
                    [NewJob(f"{owner}-{n}", "work", owner=owner) for owner in order],
                    most=dict.fromkeys(order, 10),
                )
                for n, order in enumerate(orders)
            ]
            async with asyncio.timeout(9):
                found = await asyncio.gather(*bulks, return_exceptions=True)
            assert sum(isinstance(each, TooManyJobs) for each in found) == 6
            assert sum(isinstance(each, tuple) for each in found) == 10

    asyncio.run(scenario())
