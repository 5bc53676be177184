"""The leases of claims, and what a completion writes: once a claim, not once a job."""

import asyncio

import asyncpg
import pytest
from tests.store.postgres.conftest import jobs

from holdfast.jobs.model import Completed, Finished, NewJob, Released
from holdfast.jobs.store_port import ClaimRequest, Refusal
from holdfast.testing.postgres_rows import leases_astray, set_columns

MANY = ClaimRequest(500, ("default",), {"work": None}, lease_seconds=30)

# Every column of the jobs that an index holds or has in its condition.
INDEXED = """
SELECT DISTINCT attname
FROM pg_index
JOIN pg_depend
    ON classid = 'pg_class'::regclass AND objid = indexrelid AND refobjid = indrelid
JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
WHERE indrelid = 'holdfast.jobs'::regclass AND refobjsubid > 0
"""

ROW = "SELECT line.* FROM holdfast.jobs, jsonb_each_text(to_jsonb(jobs)) AS line"


async def fetch(url, query):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(query)
    finally:
        await connection.close()


async def leases(bench):
    lines = await fetch(bench.url, "SELECT running, expires_at FROM holdfast.leases ORDER BY 1")
    return [tuple(line) for line in lines]


@pytest.mark.parametrize("outcome", [Completed(), Completed('"r"'), Released()])
def test_a_claim_lasts_until_the_last_of_its_jobs_is_reported(bench, play, outcome):
    async def scenario(store):
        await store.enqueue(jobs(5))
        claims = (await store.tick("w", claim=MANY, now=10.0)).claims
        assert await leases(bench) == [(5, 40.0)]
        for left, claim in zip((4, 3, 2, 1), claims, strict=False):
            await store.tick("w", [Finished(claim.lease, outcome)], now=11.0)
            assert await leases(bench) == [(left, 40.0)]
            assert not await leases_astray(bench.url)
        await store.tick("w", [Finished(claims[4].lease, outcome)], now=11.0)
        assert await leases(bench) == []

    play(scenario)


def test_those_who_report_at_once_on_one_claim_count_it_down_together(bench):
    async def scenario():
        async with bench.stores(4, connections=2) as stores:
            await stores[0].enqueue([*jobs(100), *jobs(100, queue="other", prefix="other")])
            request = ClaimRequest(200, ("default", "other"), {"work": None})
            claims = (await stores[0].tick("w", claim=request)).claims
            assert len(claims) == 200
            done = [Finished(claim.lease, Completed()) for claim in claims]
            await asyncio.gather(*(stores[n % 4].tick("w", done[n::20]) for n in range(20)))
            assert await leases(bench) == []
            assert {lane.complete for lane in (await stores[0].stats()).lanes} == {100}

    asyncio.run(scenario())


def test_a_claim_whose_leases_last_longer_is_looked_at_again_when_the_first_may_run_out(
    bench, play
):
    async def scenario(store):
        await store.enqueue(jobs(3))
        claims = (await store.tick("w", claim=MANY, now=10.0)).claims
        beats = store.heartbeats()
        await beats.extend([claim.lease for claim in claims[:2]], 30, now=35.0)
        await beats.extend([claims[0].lease], 30, now=50.0)
        await beats.close()
        assert (await store.rescue(now=41.0)).requeued == (claims[2].job_id,)
        assert await leases(bench) == [(2, 65.0)]
        assert (await store.rescue(now=64.0)).requeued == ()
        assert (await store.rescue(now=66.0)).requeued == (claims[1].job_id,)
        assert await leases(bench) == [(1, 80.0)]
        assert not await leases_astray(bench.url)

    play(scenario)


def test_a_lease_that_is_made_shorter_is_looked_at_in_time(bench, play):
    async def scenario(store):
        await store.enqueue(jobs(1))
        claims = (await store.tick("w", claim=MANY, now=10.0)).claims
        beats = store.heartbeats()
        await beats.extend([claims[0].lease], 5, now=11.0)
        await beats.close()
        assert await leases(bench) == [(1, 16.0)]
        assert (await store.rescue(now=17.0)).requeued == (claims[0].job_id,)

    play(scenario)


def test_a_claim_with_more_lost_jobs_than_are_taken_at_once_is_looked_at_again(bench, play):
    async def scenario(store):
        await store.enqueue(jobs(7))
        await store.tick("w", claim=MANY, now=10.0)
        rescued = [len((await store.rescue(limit=3, now=50.0)).requeued) for _ in range(4)]
        assert rescued == [3, 3, 1, 0]
        assert await leases(bench) == []

    play(scenario)


def test_a_job_that_was_moved_by_hand_takes_no_slot_for_good(bench, play):
    async def scenario(store):
        await store.enqueue(jobs(1))
        (claim,) = (await store.tick("w", claim=MANY, now=10.0)).claims
        gone = {"status": "cancelled", "finished_at": 11.0, "worker_id": None}
        await set_columns(bench.url, claim.job_id, {**gone, "lease_expires_at": None})
        assert await leases(bench) == [(1, 40.0)]
        assert (await store.rescue(now=50.0)).requeued == ()
        assert await leases(bench) == []

    play(scenario)


def test_durations_stay_with_their_jobs_in_whatever_order_and_company_they_are_reported(play):
    async def scenario(store):
        await store.enqueue(jobs(5), now=10.0)
        claims = {claim.job_id: claim for claim in (await store.tick("w", claim=MANY)).claims}
        names = sorted(claims)
        stale = claims[names[1]].lease
        await store.tick("w", [Finished(stale, Released(), 0.5)])
        await store.tick("other", claim=MANY)
        order = [names[n] for n in (4, 1, 0, 3, 0)]
        reports = [
            Finished(claims[name].lease, Completed(), 10.0 + n) for n, name in enumerate(order)
        ]
        result = await store.tick("w", reports)
        assert [refused.lease.job_id for refused in result.refused] == [names[0], names[1]]
        assert {refused.reason for refused in result.refused} == {Refusal.STALE}
        found = {name: (await store.attempts(name))[0].duration for name in names}
        assert found == {
            names[0]: 12.0, names[1]: 0.5, names[2]: None, names[3]: 13.0, names[4]: 10.0
        }  # fmt: skip

    play(scenario)


@pytest.mark.parametrize("result", [None, '"r"'])
def test_a_completion_changes_nothing_that_an_index_looks_at(bench, play, result):
    """So PostgreSQL keeps the new version of the row beside the old one, and writes no index."""

    async def scenario(store):
        await store.enqueue([NewJob("a", "work", dedup_key="k", owner="o", meta="{}")])
        (claim,) = (await store.tick("w", claim=MANY)).claims
        first = dict(map(tuple, await fetch(bench.url, ROW)))
        await store.tick("w", [Finished(claim.lease, Completed(result), 1.0)])
        then = dict(map(tuple, await fetch(bench.url, ROW)))
        changed = {name for name in first if first[name] != then[name]}
        assert {"status", "finished_at", "worker_id"} <= changed
        indexed = {line["attname"] for line in await fetch(bench.url, INDEXED)}
        assert {"seq", "ready", "waits", "ended_badly_at", "error_code"} <= indexed
        assert not changed & indexed

    play(scenario)


def test_ticks_that_complete_and_retry_on_each_others_claims_do_not_wait_in_a_ring(bench):
    """Each has jobs of both claims, and ends them in the other order."""
    some = ClaimRequest(4, ("default",), {"work": None})

    async def scenario():
        # A ring would be broken after a second and tried again; here nobody breaks it.
        ((name,),) = await fetch(bench.url, "SELECT current_database()")
        await fetch(bench.url, f'ALTER DATABASE "{name}" SET deadlock_timeout = 60000')
        async with bench.stores(2) as stores:
            await stores[0].enqueue(jobs(8))
            first, second = [(await stores[0].tick("w", claim=some)).claims for _ in range(2)]
            watcher = await asyncpg.connect(bench.url)
            async with watcher.transaction():
                # Both ticks have completed one job by then, and wait for the other.
                others = [second[0].job_id, first[1].job_id]
                await watcher.execute(
                    "SELECT FROM holdfast.jobs WHERE id = ANY ($1) FOR UPDATE", others
                )
                ticks = [
                    asyncio.create_task(
                        store.tick(
                            "w",
                            [
                                Finished(ended[number].lease, Completed(), 1.0),
                                Finished(again[number].lease, Released(), 1.0),
                            ],
                        )
                    )
                    for number, (store, ended, again) in enumerate(
                        [(stores[0], first, second), (stores[1], second, first)]
                    )
                ]
                async with asyncio.timeout(10):
                    while await waiting(watcher) < 2:
                        await asyncio.sleep(0.01)
            async with asyncio.timeout(20):
                await asyncio.gather(*ticks)
            await watcher.close()
            assert [running for running, _ in await leases(bench)] == [2, 2]
            assert not await leases_astray(bench.url)

    asyncio.run(scenario())


async def waiting(connection):
    """Return how many sessions wait for a lock."""
    return await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
