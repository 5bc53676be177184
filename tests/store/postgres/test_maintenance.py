"""Maintenance by several processes at once."""

import asyncio

import asyncpg
import pytest
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


async def read_by_retention(bench, lanes, **limits):
    """Return how many rows a round without anything due reads; 600 jobs are in so many lanes."""
    delete = "SELECT * FROM holdfast.delete_finished('work', 'complete', $1, $2, 500, NULL)"
    read = """
    SELECT CAST(sum(pg_stat_get_xact_tuples_returned(oid)) AS bigint)
    FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace
    """
    rule = RetentionRule("work", JobStatus.COMPLETE, **limits)
    async with bench.stores(1) as (store,):
        many = [NewJob(f"job-{n}", "work", downstream=f"host:{n % lanes}") for n in range(600)]
        await store.enqueue(many)
        request = ClaimRequest(600, ("default",), {"work": None})
        claims = (await store.tick("w", claim=request)).claims
        assert len(claims) == 600
        await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
    connection = await asyncpg.connect(bench.url, server_settings=SETTINGS)
    try:
        async with connection.transaction():
            assert await connection.fetch(delete, rule.max_age, rule.max_count) == []
            return await connection.fetchval(read)
    finally:
        await connection.close()


def test_retention_by_number_reads_the_counters_once_with_any_number_of_lanes(bench):
    """Counters of hundreds of lanes, not folded yet, are read once and not once for each lane."""
    read = read_by_retention(bench, 600, max_age=3600.0, max_count=100_000)
    assert asyncio.run(read) < 20_000


@pytest.mark.parametrize("lanes", [10, 600])
def test_retention_by_age_reads_one_page_with_any_number_of_lanes(bench, lanes):
    """The oldest job decides; it is read with the page of history that it is in."""
    assert asyncio.run(read_by_retention(bench, lanes, max_age=3600.0)) < 2_500
