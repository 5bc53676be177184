"""Dedup keys and shared ids: many at once, by many at once, without statistics."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, a_session_waits

from holdfast.ids import new_ids
from holdfast.jobs.model import NewJob


def with_key(number, name):
    return NewJob(f"{number}-{name}", "work", dedup_key=name)


def with_id(_, name):
    return NewJob(name, "work")


def keyed(count, prefix="job"):
    return [
        NewJob(one, "work", dedup_key=f"{prefix}-{n}") for n, one in enumerate(new_ids(count, 0.0))
    ]


def test_thousands_of_keys_take_seconds_on_a_database_without_statistics(bench):
    """The store's own timeout of 30 s is the limit; autovacuum would analyze too late to help."""

    async def scenario():
        await bench.execute("ALTER TABLE holdfast.jobs SET (autovacuum_enabled = off)")
        async with bench.stores(1) as (store,):
            bulk = keyed(8000)
            assert all(answer.created for answer in await store.enqueue(bulk))
            again = keyed(8000)
            answers = await store.enqueue(again)
            assert [answer.id for answer in answers] == [job.id for job in bulk]
            mixed = [*keyed(4000), *keyed(4000, "other")]
            answers = await store.enqueue(mixed)
            assert [answer.created for answer in answers] == [False] * 4000 + [True] * 4000

    asyncio.run(scenario())


def test_thousands_of_keys_take_seconds_in_a_callers_transaction(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url, command_timeout=30)
            async with connection.transaction():
                answers = await store.enqueue_on(connection, keyed(8000))
                assert all(answer.created for answer in answers)
            await connection.close()

    asyncio.run(scenario())


async def blocked(observer, connection, holder, task):
    """Return once `connection` waits for `holder`, or its task has ended."""
    pids = connection.get_server_pid(), [holder.get_server_pid()]
    while not task.done() and not await observer.fetchval(
        "SELECT pg_blocking_pids($1) = $2", *pids
    ):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("shared", [with_key, with_id])
def test_a_bulk_that_conflicts_with_other_callers_at_every_job_succeeds(bench, shared):
    names = [f"k{n}" for n in range(10)]

    async def scenario():
        async with bench.stores(1) as (store,), AsyncExitStack() as stack:
            holders = []
            for name in names:
                holder = await asyncpg.connect(bench.url)
                stack.push_async_callback(holder.close)
                transaction = holder.transaction()
                await transaction.start()
                await store.enqueue_on(holder, [shared(0, name)])
                holders.append((holder, transaction))
            own = await asyncpg.connect(bench.url)
            stack.push_async_callback(own.close)
            async with own.transaction():
                bulk = [shared(1, name) for name in names]
                waiting = asyncio.create_task(store.enqueue_on(own, bulk))
                observer = await asyncpg.connect(bench.url)
                stack.push_async_callback(observer.close)
                for holder, transaction in holders:
                    await blocked(observer, own, holder, waiting)
                    await transaction.commit()
                answers = await waiting
            assert [answer.id for answer in answers] == [shared(0, name).id for name in names]
            assert not any(answer.created for answer in answers)

    asyncio.run(scenario())


def test_many_callers_with_overlapping_keys_get_no_error_and_one_job_per_key(bench):
    names = [f"k{n}" for n in range(120)]
    chance = random.Random(10)

    async def scenario():
        async with bench.stores(4, connections=4) as stores:
            made = Counter()

            async def ask(caller):
                for turn in range(6):
                    some = chance.sample(names, 60)
                    bulk = [with_key(f"{caller}-{turn}", name) for name in some]
                    answers = await stores[caller % 4].enqueue(bulk)
                    made.update(
                        name for name, answer in zip(some, answers, strict=True) if answer.created
                    )
                    assert [answer.id.partition("k")[2] for answer in answers] == [
                        name[1:] for name in some
                    ]

            await asyncio.gather(*map(ask, range(16)))
            assert made == Counter(names)
            (lane,) = (await stores[0].stats()).lanes
            assert lane.ready == len(names)

    asyncio.run(scenario())


@pytest.mark.parametrize("page", [3, 10_000], ids=["pages", "one page"])
@pytest.mark.parametrize("joined", [False, True], ids=["own", "joined"])
@pytest.mark.parametrize("shared", [with_key, with_id])
def test_bulks_that_share_keys_or_ids_in_another_order_do_not_deadlock(
    bench, shared, joined, page, monkeypatch
):
    monkeypatch.setattr("holdfast.store.postgres.enqueue.PAGE", page)
    names = [f"k{n}" for n in range(9)]

    async def ask(store, bulk):
        if not joined:
            return await store.enqueue(bulk)
        connection = await asyncpg.connect(bench.url)
        try:
            async with connection.transaction():
                return await store.enqueue_on(connection, bulk)
        finally:
            await connection.close()

    async def scenario():
        # A deadlock would be broken after a second and retried; here it would last.
        connection = await asyncpg.connect(bench.url)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f'ALTER DATABASE "{name}" SET deadlock_timeout = 60000')
        async with bench.stores(2) as stores:
            transaction = connection.transaction()
            await transaction.start()
            await stores[0].enqueue_on(connection, [shared(0, names[4])])
            # Each bulk enters half of the names, then waits for the one in the middle.
            bulks = [
                asyncio.create_task(ask(store, [shared(number, name) for name in order]))
                for number, store, order in ((1, stores[0], names), (2, stores[1], names[::-1]))
            ]
            await a_session_waits(connection, 2)
            await transaction.rollback()
            async with asyncio.timeout(30):
                answers = await asyncio.gather(*bulks)
            created = Counter(answer.created for some in answers for answer in some)
            assert created == {True: len(names), False: len(names)}
        await connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("joined", [False, True], ids=["own", "joined"])
def test_pages_with_keys_run_and_are_answered_in_the_order_given(bench, joined, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.enqueue.PAGE", 3)
    keys = ["z", "m", None, "a", "q", "m", "b", None, "c", "y"]
    bulk = [NewJob(f"{9 - n}", "work", dedup_key=key) for n, key in enumerate(keys)]

    async def scenario():
        async with bench.stores(1) as (store,):
            if joined:
                connection = await asyncpg.connect(bench.url)
                async with connection.transaction():
                    answers = await store.enqueue_on(connection, bulk)
                await connection.close()
            else:
                answers = await store.enqueue(bulk)
            assert [answer.id for answer in answers] == [*"98765", "8", *"3210"]
            assert [answer.created for answer in answers] == [n != 5 for n in range(10)]
            claims = (await store.tick("w", claim=ANY)).claims
            assert [claim.job_id for claim in claims] == [*"98765", *"3210"]
            assert [job.id for job in (await store.list_jobs()).jobs] == [*"0123", *"56789"]

    asyncio.run(scenario())
