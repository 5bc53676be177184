"""Which claimed jobs have lost a worker: as their histories have it, found by their numbers."""

import asyncio
import json
import random
from dataclasses import replace

import asyncpg
from tests.store.postgres.conftest import ANY, BROKEN, jobs

from holdfast.jobs.model import Completed, Finished, NewJob, Released, Retry
from holdfast.store.joining import numbered
from holdfast.store.postgres.connection import SQL
from holdfast.store.postgres.session import SETTINGS

TOGETHER = 2000
RETRIES = (Retry(0.0, BROKEN), Retry(0.0, BROKEN, counted=False), Released(reason="stop"))
ROUNDS = 15
"""Attempts of a job at most."""
BY_HISTORY = """
SELECT job FROM holdfast.history_of(ARRAY(SELECT seq FROM holdfast.jobs))
WHERE outcome = 'lease_lost'
"""
TEN = "SELECT seq FROM holdfast.jobs ORDER BY seq DESC LIMIT 10"
STATEMENT, _ = numbered(SQL["claim_lost_workers"])


def test_the_jobs_found_are_those_whose_histories_say_so(bench):
    rng = random.Random(7)

    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(100, max_attempts=99))
            await store.enqueue([NewJob("alone", "work", max_attempts=99)])
            now = 2e9
            for _ in range(ROUNDS):
                request = replace(ANY, limit=rng.randint(30, 80), lease_seconds=1.0)
                claims = (await store.tick("w", claim=request, now=now)).claims
                # The workers of a few of them die, and a few are done.
                ends = {claim: rng.choice((None, Completed(), *(8 * RETRIES))) for claim in claims}
                finished = [Finished(claim.lease, end) for claim, end in ends.items() if end]
                await store.tick("w", finished, now=now)
                now += 100
                await store.rescue(now=now)
        connection = await asyncpg.connect(bench.url, server_settings=SETTINGS)
        try:
            seqs = await connection.fetchval("SELECT array_agg(seq) FROM holdfast.jobs")
            found = [row["seq"] for row in await connection.fetch(STATEMENT, seqs)]
            expected = {row["job"] for row in await connection.fetch(BY_HISTORY)}
        finally:
            await connection.close()
        assert sorted(found) == sorted(expected)
        assert 0 < len(found) < len(seqs)

    asyncio.run(scenario())


def test_what_is_read_does_not_grow_with_the_other_jobs(bench):
    """Also for a worker that has begun on an empty store, whose plans are made then."""

    async def scenario():
        connection = await asyncpg.connect(bench.url, server_settings=SETTINGS)
        try:
            await connection.execute(f"PREPARE lost (bigint[]) AS {STATEMENT}")
            await connection.execute("EXECUTE lost ('{}')")
            await lose_a_worker(bench)
            ten = await connection.fetchval(f"SELECT ARRAY({TEN})::text")
            plan = await connection.fetchval(
                f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE lost ('{ten}')"
            )
        finally:
            await connection.close()
        assert 10 <= rows_of(json.loads(plan)[0]["Plan"]) <= 20

    asyncio.run(scenario())


async def lose_a_worker(bench):
    async with bench.stores(1) as (store,):
        await store.enqueue(jobs(TOGETHER, max_attempts=9))
        request, now = replace(ANY, limit=TOGETHER, lease_seconds=1.0), 2e9
        assert len((await store.tick("dead", claim=request, now=now)).claims) == TOGETHER
        while (await store.rescue(now=now + 100)).requeued:
            pass
        assert len((await store.tick("w", claim=request, now=now + 200)).claims) == TOGETHER


def rows_of(plan):
    """Return how many rows the nodes of a plan have returned in all."""
    below = sum(map(rows_of, plan.get("Plans", [])))
    return below + plan["Actual Rows"] * plan["Actual Loops"]
