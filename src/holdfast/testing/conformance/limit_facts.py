"""Facts about limits that hold for the whole fleet."""

from dataclasses import replace

from holdfast.jobs.model import Completed, Finished
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.policy import RateLimit
from holdfast.testing.conformance.world import LEASE, World, fact, ids


@fact
async def a_kind_runs_no_more_jobs_at_once_than_its_limit(world: World) -> None:
    """Over all workers and lanes; the next one starts when one ends."""
    for number in range(4):
        await world.add(f"job-{number}", downstream=f"host-{number % 2}")
    limit = {"work": 2}
    first = await world.claim(10, "worker-1", kinds=limit)
    assert len(first) == 2
    assert await world.claim(10, "worker-2", kinds=limit) == ()
    result = await world.tick([Finished(first[0].lease, Completed())], 10, kinds=limit)
    assert len(result.claims) == 1


@fact
async def a_kind_at_its_limit_does_not_block_other_kinds(world: World) -> None:
    for number in range(5):
        await world.add(f"job-{number}", priority=5)
    await world.add("b", "other")
    assert ids(await world.claim(3, kinds={"work": 1, "other": None})) == ["job-0", "b"]


@fact
async def a_downstream_runs_no_more_jobs_at_once_than_its_limit(world: World) -> None:
    await world.declare(concurrency=2)
    for number in range(3):
        await world.add(f"job-{number}", downstream="gateway")
        await world.add(f"slow-{number}", "other", queue="slow", downstream="gateway")
    await world.add("free")
    queues = ("default", "slow")
    first = await world.claim(10, queues=queues)
    assert sum(claim.downstream == "gateway" for claim in first) == 2
    assert "free" in ids(first)
    assert await world.claim(10, "worker-2", queues=queues) == ()
    gateway = next(claim for claim in first if claim.downstream == "gateway")
    result = await world.tick([Finished(gateway.lease, Completed())], 10, queues=queues)
    assert len(result.claims) == 1


@fact
async def a_rate_limit_holds_for_any_minute(world: World) -> None:
    """Three per minute: the fourth starts a minute after the first, not with the next minute."""
    await world.declare(rate=RateLimit(per_minute=3))
    for number in range(9):
        await world.add(f"job-{number}", downstream="gateway")
    starts: list[float] = []
    for _ in range(300):
        starts += [world.now] * len(await world.claim(10))
        world.pass_time(0.5)
    assert len(starts) >= 6
    for index, start in enumerate(starts):
        assert sum(start <= other < start + 60 for other in starts[index:]) <= 3


@fact
async def a_rate_limit_does_not_delay_other_lanes(world: World) -> None:
    await world.declare(rate=RateLimit(per_day=1))
    for number in range(3):
        await world.add(f"job-{number}", downstream="gateway")
        await world.add(f"free-{number}")
    result = await world.tick([], 10)
    assert sum(claim.downstream == "gateway" for claim in result.claims) == 1
    assert len(result.claims) == 4
    assert result.wake_at is not None


@fact
async def an_undeclared_downstream_has_no_limits(world: World) -> None:
    for number in range(3):
        await world.add(f"job-{number}", downstream="unknown")
    claims = await world.claim()
    assert len(claims) == 3
    assert claims[0].permit is None


@fact
async def an_alias_shares_the_limit_of_its_kind(world: World) -> None:
    """Running jobs under both names count, and so do those that one claim takes."""
    for number in range(4):
        await world.add(f"old-{number}", "other")
        await world.add(f"new-{number}")
    kinds = {"work": 3, "other": 3}
    request = ClaimRequest(2, ("default",), kinds, LEASE, {"other": "work"})
    first = (await world.store.tick("worker-1", (), request, now=world.now)).claims
    assert ids(first) == ["old-0", "new-0"]
    wide = replace(request, limit=10)
    second = (await world.store.tick("worker-1", (), wide, now=world.now)).claims
    assert len(second) == 1
    assert (await world.store.tick("worker-1", (), wide, now=world.now)).claims == ()
    await world.finish(first[0], Completed())
    assert len((await world.store.tick("worker-1", (), wide, now=world.now)).claims) == 1


@fact
async def a_rate_per_second_holds_in_every_second(world: World) -> None:
    """Over all workers; the claim says when to look again."""
    await world.declare("host", rate=RateLimit(per_second=3))
    for number in range(8):
        await world.add(f"job-{number}", downstream="host")
    first = await world.tick([], 10)
    assert len(first.claims) == 3
    assert first.wake_at is not None
    assert first.wake_at <= world.now + 1
    world.pass_time(0.5)
    assert await world.claim(10, "worker-2") == ()
    world.pass_time(0.6)
    assert len(await world.claim(10)) == 3


@fact
async def spread_starts_come_one_by_one(world: World) -> None:
    """In place of bursts; up to a tenth of the gap later than they might."""
    await world.declare("host", rate=RateLimit(per_minute=30, spread=True))
    for number in range(5):
        await world.add(f"job-{number}", downstream="host")
    for number in range(3):
        assert ids(await world.claim(10)) == [f"job-{number}"]
        world.pass_time(1.5)
        assert await world.claim(10, "worker-2") == ()
        world.pass_time(0.7)
