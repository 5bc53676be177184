"""Leases: their expiry is read from the jobs alone."""

import asyncio

import asyncpg
from tests.store.postgres.conftest import jobs

from holdfast.jobs.model import Completed, Finished, Released
from holdfast.jobs.store_port import ClaimRequest, Refusal

READ_BY_SEQ = "SELECT pg_stat_get_xact_tuples_returned('holdfast.jobs_pkey'::regclass)"
MANY = ClaimRequest(500, ("default",), {"work": None}, lease_seconds=30)


async def fetch(url, query):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(query)
    finally:
        await connection.close()


async def running(bench):
    """Return the expiry times of the running jobs' leases."""
    lines = await fetch(
        bench.url, "SELECT lease_expires_at FROM holdfast.jobs WHERE status = 'processing'"
    )
    return sorted(line[0] for line in lines)


def test_reports_at_once_on_one_claim_are_all_counted(bench):
    async def scenario():
        async with bench.stores(4, connections=2) as stores:
            await stores[0].enqueue([*jobs(100), *jobs(100, queue="other", prefix="other")])
            request = ClaimRequest(200, ("default", "other"), {"work": None})
            claims = (await stores[0].tick("w", claim=request)).claims
            assert len(claims) == 200
            done = [Finished(claim.lease, Completed()) for claim in claims]
            await asyncio.gather(*(stores[n % 4].tick("w", done[n::20]) for n in range(20)))
            assert await running(bench) == []
            assert {lane.complete for lane in (await stores[0].stats()).lanes} == {100}

    asyncio.run(scenario())


def test_an_extended_lease_is_rescued_when_it_expires(bench, play):
    async def scenario(store):
        await store.enqueue(jobs(3))
        claims = (await store.tick("w", claim=MANY, now=10.0)).claims
        beats = store.heartbeats()
        await beats.extend([claim.lease for claim in claims[:2]], 30, now=35.0)
        await beats.extend([claims[0].lease], 30, now=50.0)
        await beats.close()
        assert (await store.rescue(now=41.0)).requeued == (claims[2].job_id,)
        assert await running(bench) == [65.0, 80.0]
        assert (await store.rescue(now=64.0)).requeued == ()
        assert (await store.rescue(now=66.0)).requeued == (claims[1].job_id,)
        assert await running(bench) == [80.0]

    play(scenario)


def test_a_lease_that_was_made_shorter_is_rescued_in_time(bench, play):
    async def scenario(store):
        await store.enqueue(jobs(1))
        claims = (await store.tick("w", claim=MANY, now=10.0)).claims
        beats = store.heartbeats()
        await beats.extend([claims[0].lease], 5, now=11.0)
        await beats.close()
        assert await running(bench) == [16.0]
        assert (await store.rescue(now=17.0)).requeued == (claims[0].job_id,)

    play(scenario)


def test_more_lost_jobs_than_the_limit_are_rescued_by_the_next_calls(bench, play):
    async def scenario(store):
        await store.enqueue(jobs(7))
        await store.tick("w", claim=MANY, now=10.0)
        rescued = [len((await store.rescue(limit=3, now=50.0)).requeued) for _ in range(4)]
        assert rescued == [3, 3, 1, 0]
        assert await running(bench) == []

    play(scenario)


def test_each_duration_is_recorded_with_its_job_in_any_order_of_reports(play):
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


def test_ticks_that_complete_and_retry_on_each_others_claims_do_not_deadlock(bench):
    """Each has jobs of both claims, and ends them in the other order."""
    some = ClaimRequest(4, ("default",), {"work": None})

    async def scenario():
        # A deadlock would be broken after a second and retried; here it would last.
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
            assert len(await running(bench)) == 4

    asyncio.run(scenario())


async def waiting(connection):
    """Return how many sessions wait for a lock."""
    return await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )


def test_a_rescue_reads_the_running_jobs_only(bench):
    """Also in a database that was never analyzed, as in the first hours of a new one."""

    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(3000))
            claims = (await store.tick("w", claim=MANY)).claims
            await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
            await store.tick("w", claim=MANY)
            async with store._database.connection() as connection, connection.transaction():
                before = await connection.fetchval(READ_BY_SEQ)
                await connection.fetch("SELECT * FROM holdfast.rescue(1000, NULL, NULL)")
                return await connection.fetchval(READ_BY_SEQ) - before

    assert asyncio.run(scenario()) == 0
