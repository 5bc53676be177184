"""Maintenance by several processes at once."""

import asyncio

import asyncpg
from tests.store.postgres.conftest import jobs

from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ClaimRequest, RetentionRule
from holdfast.store.postgres.session import SETTINGS

MANY = ClaimRequest(500, ("default",), {"work": None})


def test_rescuers_at_once_take_each_job_once(bench):
    async def scenario():
        async with bench.stores(4, connections=2) as stores:
            await stores[0].enqueue(jobs(200), now=10.0)
            await stores[0].tick("w", claim=MANY, now=10.0)
            rescued = await asyncio.gather(*(store.rescue(now=1000.0) for store in stores))
            ids = [job_id for some in rescued for job_id in some.requeued]
            assert len(ids) == len(set(ids)) == 200
            stats = await stores[0].stats()
            assert stats.totals["rescued"] == 200
            assert (stats.lanes[0].ready, stats.lanes[0].processing) == (200, 0)

    asyncio.run(scenario())


def test_retention_at_once_keeps_the_newest(bench):
    """Two that count before either deletes must not delete twice as many."""

    async def scenario():
        async with bench.stores(4, connections=2) as stores:
            await stores[0].enqueue(jobs(100))
            claims = (await stores[0].tick("w", claim=MANY)).claims
            await stores[0].tick("w", [Finished(claim.lease, Completed()) for claim in claims])
            rule = RetentionRule("work", JobStatus.COMPLETE, max_count=60)
            deleted = await asyncio.gather(
                *(store.delete_finished(rule, limit=500) for store in stores)
            )
            assert sum(map(len, deleted)) == 40
            assert {item.id for some in deleted for item in some} == {job.id for job in jobs(40)}
            assert (await stores[0].stats()).lanes[0].complete == 60

    asyncio.run(scenario())


def test_retention_leaves_nothing_behind(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(20))
            claims = (await store.tick("w", claim=MANY)).claims
            await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
            rule = RetentionRule("work", JobStatus.COMPLETE, max_count=0)
            while await store.delete_finished(rule, limit=7):
                pass
            connection = await asyncpg.connect(bench.url)
            for table in ("jobs", "ids", "history", "late_results"):
                assert await connection.fetchval(f"SELECT count(*) FROM holdfast.{table}") == 0
            await connection.close()

    asyncio.run(scenario())


def test_a_page_of_history_goes_with_the_last_of_its_jobs(bench):
    """Jobs of two kinds that were enqueued, claimed and completed together share their pages."""

    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)

            async def count(table):
                return await connection.fetchval(f"SELECT count(*) FROM holdfast.{table}")

            await store.enqueue([*jobs(3), *jobs(2, "other", prefix="other")])
            both = ClaimRequest(9, ("default",), {"work": None, "other": None})
            claims = (await store.tick("w", claim=both)).claims
            await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
            assert (await count("history"), await count("completed")) == (3, 2)
            for kind, left in (("work", 3), ("other", 0)):
                rule = RetentionRule(kind, JobStatus.COMPLETE, max_count=0)
                deleted = []
                while some := await store.delete_finished(rule, limit=2):
                    deleted += some
                assert {item.kind for item in deleted} == {kind}
                assert await count("history") == left
                assert await count("completed") == (left > 0)
                events = await store.events("other-00000")
                assert len(events) == left
            await connection.close()

    asyncio.run(scenario())


def test_one_of_many_becomes_the_leader(bench):
    async def scenario():
        async with bench.stores(5, connections=2) as stores:
            leaders = await asyncio.gather(
                *(store.lead("chores", f"w{n}", 30) for n, store in enumerate(stores))
            )
            assert sum(leader is not None for leader in leaders) == 1

    asyncio.run(scenario())


def test_retention_reads_as_much_as_it_deletes_with_any_number_of_lanes(bench):
    """Counters of hundreds of lanes, not folded yet, are read once and not once for each lane."""
    rule = RetentionRule("work", JobStatus.COMPLETE, max_age=3600.0, max_count=100_000)
    delete = "SELECT * FROM holdfast.delete_finished($1, $2, $3, $4, 500, NULL)"
    read = """
    SELECT CAST(sum(pg_stat_get_xact_tuples_returned(oid)) AS bigint)
    FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace
    """

    async def scenario():
        async with bench.stores(1) as (store,):
            many = [NewJob(f"job-{n}", "work", downstream=f"host:{n}") for n in range(600)]
            await store.enqueue(many)
            request = ClaimRequest(600, ("default",), {"work": None})
            claims = (await store.tick("w", claim=request)).claims
            await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
        connection = await asyncpg.connect(bench.url, server_settings=SETTINGS)
        try:
            async with connection.transaction():
                arguments = (rule.kind, str(rule.status), rule.max_age, rule.max_count)
                assert await connection.fetch(delete, *arguments) == []
                return await connection.fetchval(read)
        finally:
            await connection.close()

    assert asyncio.run(scenario()) < 20_000
