"""Concurrent claims: no job twice, no limit exceeded, no lane starved."""

import asyncio
from collections import Counter
from dataclasses import replace

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, BROKEN, jobs

from holdfast.jobs.downstreams.record import (
    Admission,
    CallReport,
    DownstreamSettings,
    HoldMode,
    Verdict,
)
from holdfast.jobs.model import Completed, Failed, Finished, NewJob, Retry
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.policy import BreakerPolicy, RateLimit


def test_eight_workers_never_get_the_same_job(bench):
    async def scenario():
        async with bench.stores(8, connections=2) as stores:
            await stores[0].enqueue(jobs(2000))
            drained = await asyncio.gather(
                *(bench.drain(store, f"worker-{n}") for n, store in enumerate(stores))
            )
            ids = [job_id for some in drained for job_id in some]
            assert len(ids) == 2000
            assert len(set(ids)) == 2000
            assert sum(bool(some) for some in drained) > 1
            (lane,) = (await stores[0].stats()).lanes
            assert (lane.ready, lane.processing, lane.complete) == (0, 0, 2000)

    asyncio.run(scenario())


def test_workers_of_one_store_never_get_the_same_job(bench):
    async def scenario():
        async with bench.stores(1, connections=8) as (store,):
            await store.enqueue(jobs(1000))
            drained = await asyncio.gather(*(bench.drain(store, f"w-{n}") for n in range(8)))
            assert Counter(job_id for some in drained for job_id in some) == Counter(
                job.id for job in jobs(1000)
            )

    asyncio.run(scenario())


async def _most_at_once(bench, request, number=120):
    """Drain with six workers and return how many jobs ran at once at most."""
    running, most = 0, 0

    async def work(store, name):
        nonlocal running, most
        finished = []
        idle = 0
        while idle < 20:
            running -= len(finished)
            result = await store.tick(name, finished, request)
            running += len(result.claims)
            most = max(most, running)
            finished = [Finished(claim.lease, Completed()) for claim in result.claims]
            idle = 0 if finished else idle + 1
            await asyncio.sleep(0.001)

    async with bench.stores(6, connections=2) as stores:
        await asyncio.gather(*(work(store, f"w-{n}") for n, store in enumerate(stores)))
        lanes = (await stores[0].stats()).lanes
        assert sum(lane.complete for lane in lanes) == number
    return most


def test_a_limit_of_a_kind_holds_under_concurrent_claims(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(60))
            await store.enqueue(jobs(60, prefix="other", downstream="gateway"))
        request = ClaimRequest(10, ("default",), {"work": 3})
        return await _most_at_once(bench, request)

    assert asyncio.run(scenario()) <= 3


def test_a_limit_of_a_downstream_holds_under_concurrent_claims(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.declare_downstreams([DownstreamSettings("gateway", concurrency=4)])
            await store.enqueue(jobs(60, downstream="gateway"))
            await store.enqueue(jobs(60, prefix="slow", queue="slow", downstream="gateway"))
        request = ClaimRequest(10, ("default", "slow"), {"work": None})
        return await _most_at_once(bench, request)

    assert asyncio.run(scenario()) <= 4


def test_trial_calls_are_bounded_in_the_whole_fleet(bench):
    policy = BreakerPolicy(consecutive_failures=1, open_for=30, trial_calls=3)

    async def scenario():
        async with bench.stores(6, connections=2) as stores:
            first = stores[0]
            await first.declare_downstreams([DownstreamSettings("gateway", breaker=policy)])
            await first.enqueue(jobs(50, downstream="gateway"), now=100.0)
            (claim,) = (await first.tick("w", claim=replace(ANY, limit=1), now=100.0)).claims
            report = CallReport("gateway", claim.permit, Verdict.FAILURE)
            await first.tick("w", [Finished(claim.lease, Failed(BROKEN), report=report)], now=101.0)
            ticks = await asyncio.gather(
                *(store.tick(f"w-{n}", claim=ANY, now=140.0) for n, store in enumerate(stores))
            )
            claims = [claim for tick in ticks for claim in tick.claims]
            assert [claim.admission for claim in claims] == [Admission.TRIAL] * 3
            assert len({claim.permit.trial for claim in claims}) == 3

    asyncio.run(scenario())


def test_a_rate_limit_holds_under_concurrent_claims(bench):
    async def scenario():
        async with bench.stores(5, connections=2) as stores:
            await stores[0].declare_downstreams(
                [DownstreamSettings("gateway", rate=RateLimit(per_minute=7, per_day=100))]
            )
            await stores[0].enqueue(jobs(50, downstream="gateway"), now=1000.0)
            ticks = await asyncio.gather(
                *(store.tick(f"w-{n}", claim=ANY, now=1000.0) for n, store in enumerate(stores))
            )
            assert sum(len(tick.claims) for tick in ticks) == 7
            assert min(tick.wake_at for tick in ticks if tick.wake_at) == 1001.0

    asyncio.run(scenario())


def test_lanes_take_turns(play):
    async def scenario(store):
        for name in ("a", "b", "c"):
            await store.enqueue(jobs(3, prefix=name, downstream=name))
        request = replace(ANY, limit=1)
        lanes = []
        for _ in range(9):
            (claim,) = (await store.tick("w", claim=request)).claims
            lanes.append(claim.downstream)
        assert [sorted(lanes[n : n + 3]) for n in (0, 3, 6)] == [["a", "b", "c"]] * 3

    play(scenario)


def test_a_flood_in_one_lane_leaves_the_others_their_share(play):
    async def scenario(store):
        await store.enqueue(jobs(500, prefix="flood"))
        await store.enqueue(jobs(3, prefix="few", downstream="gateway"))
        await store.enqueue(jobs(2, prefix="slow", queue="slow"))
        request = ClaimRequest(20, ("default", "slow"), {"work": None})
        claims = (await store.tick("w", claim=request)).claims
        count = Counter(claim.job_id.partition("-")[0] for claim in claims)
        assert count == {"flood": 15, "few": 3, "slow": 2}

    play(scenario)


def test_priorities_hold_across_the_kinds_of_a_lane(play):
    async def scenario(store):
        await store.enqueue(
            [
                NewJob(f"{kind}-{n}", kind, priority=n)
                for kind in ("work", "other")
                for n in range(4)
            ]
        )
        request = ClaimRequest(3, ("default",), {"work": None, "other": None})
        claims = (await store.tick("w", claim=request)).claims
        assert {claim.job_id for claim in claims} == {"work-3", "other-3", "work-2"}

    play(scenario)


def test_a_lane_that_needs_care_shares_with_those_that_do_not(play):
    async def scenario(store):
        await store.declare_downstreams([DownstreamSettings("gateway", concurrency=50)])
        await store.enqueue(jobs(100, prefix="free"))
        await store.enqueue(jobs(100, prefix="limited", downstream="gateway"))
        for _ in range(2):  # the first finds out about the limit, the second knows
            claims = (await store.tick("w", claim=replace(ANY, limit=20))).claims
            count = Counter(claim.job_id.partition("-")[0] for claim in claims)
            assert count == {"free": 10, "limited": 10}

    play(scenario)


def test_a_report_and_a_claim_that_need_care_go_together(play):
    policy = BreakerPolicy(consecutive_failures=2, open_for=30, trial_calls=1)

    async def scenario(store):
        await store.declare_downstreams(
            [DownstreamSettings("gateway", breaker=policy, concurrency=2, mode=HoldMode.FAIL_FAST)]
        )
        await store.enqueue(jobs(9, downstream="gateway"))
        first, second = (await store.tick("w", claim=ANY)).claims
        finished = [
            Finished(
                claim.lease,
                Failed(BROKEN),
                report=CallReport("gateway", claim.permit, Verdict.FAILURE),
            )
            for claim in (first, second)
        ]
        result = await store.tick("w", finished, replace(ANY, limit=3))
        assert [record.circuit.state for record in result.moved] == ["OPEN"]
        assert [claim.admission for claim in result.claims] == [Admission.REFUSED] * 3
        assert (await store.stats()).dead_letters == 2

    play(scenario)


def test_a_success_reported_by_a_process_with_a_stale_cache_ends_the_streak(bench):
    """The cached record had no streak, so the success would have changed nothing there."""
    policy = BreakerPolicy(consecutive_failures=2, open_for=30)

    async def scenario():
        async with bench.stores(2) as (one, two):
            await one.declare_downstreams([DownstreamSettings("gateway", breaker=policy)])
            await one.enqueue(jobs(10, downstream="gateway"))

            async def call(store, verdict):
                (claim,) = (await store.tick("w", claim=replace(ANY, limit=1))).claims
                report = CallReport("gateway", claim.permit, verdict)
                await store.tick("w", [Finished(claim.lease, Completed(), report=report)])

            await call(two, Verdict.SUCCESS)
            for _ in range(3):
                await call(one, Verdict.FAILURE)
                await call(two, Verdict.SUCCESS)
            record = await one.downstream("gateway")
            assert (record.circuit.state, record.circuit.streak) == ("CLOSED", 0)

    asyncio.run(scenario())


def test_ready_jobs_past_their_deadline_do_not_hide_the_others(play):
    async def scenario(store):
        await store.enqueue(jobs(700, prefix="late", deadline_at=50.0, priority=9), now=10.0)
        await store.enqueue(jobs(5, prefix="fine"), now=10.0)
        result = await store.tick("w", claim=ANY, now=60.0)
        assert [claim.job_id for claim in result.claims] == [f"fine-{n:05d}" for n in range(5)]
        assert len(result.timed_out) == 500
        result = await store.tick("w", claim=ANY, now=60.0)
        assert len(result.timed_out) == 200

    play(scenario)


def test_running_jobs_are_counted_once_where_a_downstream_is_in_two_queues(bench):
    """The first queue's jobs are locked, so the claim goes on with the second queue."""

    async def scenario():
        async with bench.stores(1) as (store,):
            await store.declare_downstreams([DownstreamSettings("d", concurrency=2)])
            for queue in ("one", "two"):
                await store.enqueue(jobs(2, prefix=queue, queue=queue, downstream="d"))
            request = ClaimRequest(1, ("one", "two"), {"work": None})
            assert len((await store.tick("w", claim=request)).claims) == 1
            other = await asyncpg.connect(bench.url)
            async with other.transaction():
                # All but one job, which the claim comes to last.
                await other.execute(
                    "SELECT FROM holdfast.jobs WHERE ready AND id <> 'one-00001' FOR UPDATE"
                )
                (claim,) = (await store.tick("w", claim=request)).claims
            await other.close()
            assert claim.job_id == "one-00001"
            assert (await store.tick("w", claim=request)).claims == ()

    asyncio.run(scenario())


def test_a_claim_takes_as_many_jobs_as_it_may_where_some_lanes_have_few(play):
    """After equal shares two jobs are left to claim, and the first two lanes have one."""

    async def scenario(store):
        for name, number in (("a", 4), ("b", 2), ("c", 9)):
            await store.enqueue(jobs(number, prefix=name, downstream=name))
        for kinds in ({"work": None}, {"work": 100}):
            claims = (await store.tick("w", claim=ClaimRequest(11, ("default",), kinds))).claims
            assert Counter(claim.downstream for claim in claims) == {"a": 4, "b": 2, "c": 5}
            assert await store.tick("w", [Finished(c.lease, Retry(0, BROKEN)) for c in claims])

    play(scenario)


KINDS = [f"kind-{n}" for n in range(5)]


@pytest.mark.parametrize(
    "limit, most, downstream, expected",
    [(1, None, None, 3), (8, 1, None, 5), (8, None, "d", 2)],
    ids=["the claim's own limit", "a limit of each kind", "a limit of the downstream"],
)
def test_a_claim_past_a_locked_job_keeps_its_limits(bench, limit, most, downstream, expected):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.declare_downstreams([DownstreamSettings("d", concurrency=2)])
            await store.enqueue([NewJob("head", KINDS[0], priority=5, downstream=downstream)])
            await store.enqueue(
                [
                    NewJob(f"{kind}-{n}", kind, downstream=downstream)
                    for kind in KINDS
                    for n in range(3)
                ]
            )
            other = await asyncpg.connect(bench.url)
            async with other.transaction():
                await other.execute("SELECT FROM holdfast.jobs WHERE id = 'head' FOR UPDATE")
                request = ClaimRequest(limit, ("default",), dict.fromkeys(KINDS, most))
                claimed = [
                    claim.job_id
                    for _ in range(3)
                    for claim in (await store.tick("w", [], request)).claims
                ]
            await other.close()
            assert "head" not in claimed
            assert len(claimed) == expected

    asyncio.run(scenario())
