"""Failover to a standby that has not received the last commits of its primary.

It gives the numbers of the jobs that it lost to new jobs, so a report must name more than a number.
"""

import asyncio

import pytest
from tests.store.postgres.conftest import BROKEN, jobs
from tests.store.postgres.test_faults import until_it_works
from tests.support.postgres import obtain
from tests.support.postgres_standby import Standby

from holdfast.jobs.model import Completed, Failed, Finished, JobStatus, NewJob, Released, Retry
from holdfast.jobs.store_port import ClaimRequest, Refusal, Rescued
from holdfast.store.postgres.store import PostgresStore

# A standby may be 32 numbers of a sequence ahead: so few lost jobs would share none with new ones.
LOST = 80
SEQS = "SELECT seq FROM holdfast.jobs WHERE id LIKE '{}-%'"


@pytest.fixture
def servers():
    """A primary with the schema, and its standby."""
    primary = obtain(fsync=False)
    if not primary.private:
        pytest.skip("this server is not ours to stop")
    asyncio.run(PostgresStore(primary.url()).migrate())
    with Standby(primary) as standby:
        yield primary, standby
    primary.close()


async def enqueue_one_by_one(store, prefix):
    for job in jobs(LOST, prefix=prefix):
        assert (await store.enqueue([job]))[0].created


async def claim(store, worker, number):
    claims = (
        await store.tick(worker, claim=ClaimRequest(number, ("default",), {"work": None}))
    ).claims
    assert len(claims) == number
    return [each.lease for each in claims]


async def lose_jobs(store, servers):
    """Let "worker" claim jobs, then fail over to a standby that has the first, unclaimed, at most.

    Return the worker's leases.
    """
    primary, standby = servers
    await store.enqueue(jobs(1, prefix="kept"))
    await asyncio.to_thread(standby.stop_receiving)
    await store.enqueue([NewJob("lost-lane", "other")])
    await enqueue_one_by_one(store, "lost")
    leases = await claim(store, "worker", LOST + 1)
    lost = set(primary.execute(SEQS.format("lost")))
    await asyncio.to_thread(standby.take_over)
    await until_it_works(store.ping)
    await enqueue_one_by_one(store, "new")
    assert lost & set(standby.execute(SEQS.format("new"))), "no number was given twice"
    return leases


OUTCOMES = [Completed(), Completed('"result"'), Failed(BROKEN), Retry(1, BROKEN), Released()]


def test_reports_about_lost_jobs_change_no_other_job(servers):
    async def scenario():
        async with PostgresStore(servers[0].url()) as store:
            old = await lose_jobs(store, servers)
            # Under the same numbers and tokens: jobs of another worker, and of the same one.
            others = await claim(store, "other", LOST // 2)
            own = await claim(store, "worker", LOST + 1 - LOST // 2)
            assert others[0].job_id == old[0].job_id == "kept-00000"
            for outcome in OUTCOMES:
                reports = [Finished(lease, outcome, duration=1.0) for lease in old]
                result = await store.tick("worker", reports)
                assert [refused.reason for refused in result.refused] == [Refusal.STALE] * len(old)
            for lease in others + own:
                job = await store.get(lease.job_id)
                assert (job.status, job.worker_id) == (JobStatus.PROCESSING, lease.worker_id)
            await finish(store, others + own)

    asyncio.run(scenario())


def test_a_job_of_a_lost_lane_runs(servers):
    """The process remembers a lane that the standby has not received."""

    async def scenario():
        async with PostgresStore(servers[0].url()) as store:
            await lose_jobs(store, servers)
            assert (await store.enqueue([NewJob("new-lane", "other")]))[0].created
            result = await store.tick("w", claim=ClaimRequest(2, ("default",), {"other": None}))
            assert [(each.job_id, each.kind) for each in result.claims] == [("new-lane", "other")]

    asyncio.run(scenario())


async def finish(store, leases):
    """Finish all jobs that are left: nothing that was acknowledged since the failover is lost."""
    result = await store.tick("worker", [Finished(lease, Completed()) for lease in leases])
    assert result.refused == ()
    for job in [*jobs(1, prefix="kept"), *jobs(LOST, prefix="new")]:
        assert (await store.get(job.id)).status is JobStatus.COMPLETE
    assert await store.get("lost-00000") is None


def test_leases_of_lost_claims_are_not_extended(servers):
    async def scenario():
        async with PostgresStore(servers[0].url()) as store:
            old = await lose_jobs(store, servers)
            new = await claim(store, "other", LOST + 1)
            heartbeats = store.heartbeats()
            assert set((await heartbeats.extend(old, 600)).lost) == set(old)
            assert not any([await store.progress(lease, 0.5) for lease in old[:40]])
            assert (await heartbeats.extend(new, 600)).lost == ()
            assert await store.progress(new[0], 0.5)
            await heartbeats.close()

    asyncio.run(scenario())


def test_workers_have_fifteen_seconds_to_find_the_new_primary(servers):
    async def scenario():
        async with PostgresStore(servers[0].url()) as store:
            heartbeats = store.heartbeats()
            await heartbeats.register("worker")
            await store.enqueue(jobs(1))
            await claim(store, "worker", 1)
            await asyncio.to_thread(servers[1].stop_receiving)
            await asyncio.to_thread(servers[1].take_over)
            await until_it_works(store.ping)
            now = await store.ping()
            assert await store.rescue(now=now) == Rescued()
            assert await store.rescue(now=now + 14.9) == Rescued()
            assert (await store.rescue(now=now + 15)).requeued == ("job-00000",)
            await heartbeats.close()

    asyncio.run(scenario())
