"""A claim where limits of owners decide: what it costs, and whom it leaves out."""

import asyncio
from collections import Counter
from dataclasses import replace

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, jobs

from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.model import Completed, Finished
from holdfast.jobs.owner_limits import OwnerLimits
from holdfast.resilience.policy import RateLimit

ONE_AT_ONCE = OwnerLimits(concurrency=1)
ONE_A_DAY = OwnerLimits(rate=RateLimit(per_day=1))


def owned(owners, number, **fields):
    """Return so many jobs of each owner."""
    return [job for owner in owners for job in jobs(number, prefix=owner, owner=owner, **fields)]


async def log_statements(store):
    """Return a list to which the statements of a store with one connection are added."""
    statements = []
    async with store._database.connection() as connection:
        connection.add_query_logger(lambda record: statements.append(record.query))
    return statements


@pytest.mark.parametrize("spare", [None, 1], ids=["without places", "with places"])
@pytest.mark.parametrize("limits", [ONE_AT_ONCE, ONE_A_DAY], ids=["concurrency", "rate"])
def test_a_claim_past_hundreds_of_owners_without_room_takes_few_statements(play, limits, spare):
    names = [f"owner-{n:03d}" for n in range(600)]
    downstream = None if spare is None else "host"

    async def scenario(store):
        if spare is not None:
            await store.declare_downstreams(
                [DownstreamSettings("host", concurrency=2000, spare=spare)]
            )
        await store.enqueue(owned(names, 2, downstream=downstream))
        request = replace(ANY, limit=600, owner_limits=limits)
        claims = (await store.tick("w", claim=request)).claims
        assert Counter(claim.owner for claim in claims) == dict.fromkeys(names, 1)
        if limits is ONE_A_DAY:
            await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
        await store.enqueue(owned(["zoe"], 1, downstream=downstream))
        statements = await log_statements(store)
        for claimed in (["zoe"], []):
            statements.clear()
            claims = (await store.tick("w", claim=replace(request, limit=3))).claims
            assert [claim.owner for claim in claims] == claimed
            assert 0 < len(statements) < 60

    play(scenario, connections=1)


def test_a_claim_takes_one_job_each_of_many_owners_at_once(play):
    async def scenario(store):
        await store.enqueue(owned([f"owner-{n}" for n in range(20)], 15))
        statements = await log_statements(store)
        claims = (await store.tick("w", claim=replace(ANY, owner_limits=ONE_AT_ONCE))).claims
        assert len({claim.owner for claim in claims}) == len(claims) == 10
        assert sum("take_jobs" in statement for statement in statements) == 1

    play(scenario, connections=1)


def test_a_claim_plans_an_owner_s_room_once_over_lanes_and_priorities(play):
    async def scenario(store):
        await store.enqueue(owned(["ann"], 9, downstream="one"))
        await store.enqueue(owned(["bob"], 9, downstream="two"))
        for number, place in enumerate([{"downstream": "two"}, {"downstream": "one"}]):
            await store.enqueue(jobs(9, prefix=f"{number}", owner="ann", priority=3, **place))
        request = replace(ANY, limit=12, owner_limits=OwnerLimits(concurrency=4))
        claims = (await store.tick("w", claim=request)).claims
        assert Counter(claim.owner for claim in claims) == {"ann": 4, "bob": 4}

    play(scenario)


def test_a_claim_leaves_out_an_owner_whose_jobs_are_all_locked(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.set_owner_limits("ann", OwnerLimits(concurrency=2))
            await store.enqueue(owned(["ann", "bob"], 3))
            other = await asyncpg.connect(bench.url)
            async with other.transaction():
                await other.execute("SELECT FROM holdfast.jobs WHERE owner = 'ann' FOR UPDATE")
                claims = (await store.tick("w", [], replace(ANY, limit=1))).claims
                assert [claim.owner for claim in claims] == ["bob"]
                claims = (await store.tick("w", [], ANY)).claims
                assert [claim.owner for claim in claims] == ["bob", "bob"]
            await other.close()
            claims = (await store.tick("w", [], ANY)).claims
            assert [claim.owner for claim in claims] == ["ann", "ann"]

    asyncio.run(scenario())


def test_a_claim_that_finds_no_ready_jobs_waits_for_no_other_claim(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(owned(["ann"], 1))
            await store.enqueue(owned(["bob"], 1, queue="elsewhere"))
            request = replace(ANY, owner_limits=ONE_AT_ONCE)
            (claim,) = (await store.tick("w", [], request)).claims
            assert (await store.tick("w", [], request)).claims == ()
            other = await asyncpg.connect(bench.url)
            async with other.transaction():
                await other.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended('holdfast owners', 0))"
                )
                async with asyncio.timeout(20):
                    done = [Finished(claim.lease, Completed())]
                    assert (await store.tick("w", done, request)).claims == ()
            await other.close()

    asyncio.run(scenario())
