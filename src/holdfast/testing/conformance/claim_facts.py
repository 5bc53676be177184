"""Facts about which jobs are claimed, in which order, and when."""

from holdfast.jobs.model import Completed, Finished, JobStatus, Released, Retry
from holdfast.jobs.store_port import FailedJob, RetentionRule
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids


@fact
async def a_claim_has_the_handlers_input(world: World) -> None:
    await world.add(
        "a",
        queue="slow",
        arguments="[1]",
        owner="ann",
        meta="{}",
        max_attempts=4,
        deadline_at=world.now + 99,
        downstream="gateway",
    )
    created_at = world.now
    world.pass_time(2)
    (claim,) = await world.claim(queues=["slow"])
    assert (claim.job_id, claim.kind, claim.queue) == ("a", "work", "slow")
    assert (claim.arguments, claim.owner, claim.meta) == ("[1]", "ann", "{}")
    assert (claim.attempt, claim.max_attempts) == (1, 4)
    assert (claim.created_at, claim.started_at) == (created_at, world.now)
    assert (claim.deadline_at, claim.downstream) == (created_at + 99, "gateway")
    assert claim.lease.worker_id == "worker-1"
    assert claim.lease.expires_at == world.now + LEASE


@fact
async def a_claim_takes_no_more_than_its_limit(world: World) -> None:
    """Backpressure: jobs that the worker cannot run are left for others."""
    for number in range(5):
        await world.add(f"job-{number}")
    assert len(await world.claim(3)) == 3
    assert len(await world.claim(0)) == 0
    assert len(await world.claim(9)) == 2


@fact
async def higher_priority_first_then_first_come(world: World) -> None:
    for name, priority in (("low", -1), ("first", 0), ("urgent", 9), ("second", 0)):
        await world.add(name, priority=priority)
        world.pass_time(1)
    assert ids(await world.claim()) == ["urgent", "first", "second", "low"]


@fact
async def priority_holds_across_the_kinds_of_a_lane(world: World) -> None:
    await world.add("a", "work")
    await world.add("b", "other", priority=1)
    await world.add("c", "work", priority=2)
    await world.add("d", "other", priority=-1)
    assert ids(await world.claim(3)) == ["c", "b", "a"]
    await world.add("e", "work", priority=-2)
    await world.add("f", "other", priority=7)
    assert [(await world.claim_one()).job_id for _ in range(3)] == ["f", "d", "e"]


@fact
async def only_the_requested_queues_and_kinds_are_claimed(world: World) -> None:
    await world.add("a", queue="slow")
    await world.add("b", "other")
    await world.add("c")
    assert ids(await world.claim(kinds={"work": None})) == ["c"]
    assert ids(await world.claim(queues=["slow"], kinds={"work": None})) == ["a"]
    assert ids(await world.claim(queues=["slow", "default"])) == ["b"]
    assert await world.claim(queues=[]) == ()


@fact
async def a_flood_in_one_lane_does_not_starve_the_others(world: World) -> None:
    """Three lanes share a limit of ten, however long one of them is."""
    for number in range(40):
        await world.add(f"flood-{number:02d}", downstream="flood")
    await world.add("b", downstream="brook")
    await world.add("c")
    claimed = ids(await world.claim(10))
    assert {"b", "c"} <= set(claimed)
    assert len(claimed) == 10
    assert [name for name in claimed if "flood" in name] == [f"flood-{n:02d}" for n in range(8)]


@fact
async def new_lanes_do_not_starve_one_that_waits(world: World) -> None:
    """As when each job is for another host; in the same queue or in one that is served with it."""
    queues = ("default", "another")
    for queue in queues:
        waiting = {f"{queue}-waiting-{number}" for number in range(3)}
        for job_id in sorted(waiting):
            await world.add(job_id, downstream="waiting")
        claimed = []
        for number in range(8):
            await world.add(f"{queue}-{number}", downstream=f"new-{number}", queue=queue)
            claimed += ids(await world.claim(1, queues=queues))
        assert waiting <= set(claimed), claimed
        await world.claim(100, queues=queues)


@fact
async def lanes_take_turns_with_a_limit_of_one(world: World) -> None:
    for number in range(3):
        await world.add(f"a-{number}", downstream="a")
        await world.add(f"b-{number}", downstream="b")
        await world.add(f"c-{number}")
    order = [(await world.claim_one()).job_id for _ in range(9)]
    for start in (0, 3, 6):
        assert {name[0] for name in order[start : start + 3]} == {"a", "b", "c"}


@fact
async def a_job_is_not_started_before_its_time(world: World) -> None:
    await world.add("later", run_at=world.now + 10)
    await world.add("past", run_at=world.now - 10)
    result = await world.tick([], 10)
    assert ids(result.claims) == ["past"]
    assert result.wake_at == world.now + 10
    world.pass_time(9.5)
    assert await world.claim() == ()
    world.pass_time(0.5)
    assert ids(await world.claim()) == ["later"]


@fact
async def scheduled_jobs_do_not_delay_due_jobs(world: World) -> None:
    await world.add("future", priority=9, run_at=world.now + 60)
    await world.add("due")
    assert ids(await world.claim(1)) == ["due"]


@fact
async def many_due_jobs_are_all_promoted(world: World) -> None:
    for number in range(30):
        await world.add(f"job-{number:02d}", run_at=world.now + 5 + number / 100)
    world.pass_time(6)
    assert ids(await world.claim(40)) == [f"job-{number:02d}" for number in range(30)]


@fact
async def a_waiting_retry_takes_no_slot(world: World) -> None:
    """It is queued, without worker and lease, and others run meanwhile."""
    await world.finish(await world.start("a"), Retry(45, BROKEN))
    job = await world.job("a")
    assert (job.status, job.worker_id, job.lease_expires_at) == (JobStatus.QUEUED, None, None)
    assert (job.ready_at, job.retry_after) == (world.now + 45, world.now + 45)
    await world.add("b")
    assert ids(await world.claim()) == ["b"]
    world.pass_time(45)
    assert ids(await world.claim()) == ["a"]


@fact
async def a_tick_finishes_and_claims_in_one_transaction(world: World) -> None:
    first = await world.start("a")
    await world.add("b")
    result = await world.tick([Finished(first.lease, Completed("1"))], 1)
    assert ids(result.claims) == ["b"]
    assert result.now == world.now
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def a_released_job_is_claimable_in_the_same_tick(world: World) -> None:
    """Before the jobs that became ready after it."""
    first = await world.start("a")
    world.pass_time(5)
    await world.add("b")
    result = await world.tick([Finished(first.lease, Released())], 2)
    assert ids(result.claims) == ["a", "b"]


@fact
async def a_released_job_keeps_its_position(world: World) -> None:
    """However late it is released: it keeps its old `ready_at`."""
    await world.add("a")
    created_at = world.now
    world.pass_time(5)
    first = await world.claim_one()
    for name in ("b", "c"):
        world.pass_time(5)
        await world.add(name)
    world.pass_time(5)
    await world.finish(first, Released())
    job = await world.job("a")
    assert (job.ready_at, job.queued_at, job.retry_after) == (created_at, world.now, None)
    assert (await world.claim_one()).job_id == "a"


@fact
async def a_released_retry_keeps_the_position_of_its_retry(world: World) -> None:
    """Its `ready_at` is the end of its delay, not its creation."""
    await world.finish(await world.start("a"), Retry(10, BROKEN))
    world.pass_time(5)
    await world.add("before")
    world.pass_time(5)
    due = world.now
    world.pass_time(5)
    await world.add("after")
    claims = {claim.job_id: claim for claim in await world.claim(3)}
    assert list(claims) == ["before", "a", "after"]
    world.pass_time(5)
    await world.tick([Finished(claim.lease, Released()) for claim in claims.values()])
    assert (await world.job("a")).ready_at == due
    assert ids(await world.claim(3)) == ["before", "a", "after"]


@fact
async def a_job_past_its_deadline_is_failed_not_claimed(world: World) -> None:
    for number in range(3):
        await world.add(f"late-{number}", deadline_at=world.now + 1)
    await world.add("fine", deadline_at=world.now + 99)
    world.pass_time(2)
    result = await world.tick([], 1)
    assert ids(result.claims) == ["fine"]
    assert result.timed_out == tuple(FailedJob(f"late-{number}") for number in range(3))
    job = await world.job("late-0")
    assert (job.status, job.attempt_count) == (JobStatus.FAILED, 0)
    assert (await world.lane()).failed == 3


@fact
async def a_kind_above_its_lowered_limit_does_not_block_other_kinds(world: World) -> None:
    """A new release may lower a limit below the number of running jobs."""
    for name in ("a", "b"):
        await world.start(name, kind="other")
    await world.add("blocked", kind="other", priority=5)
    await world.add("free")
    lowered = {"work": None, "other": 1}
    assert ids(await world.claim(1, kinds=lowered)) == ["free"]
    assert await world.claim(1, kinds=lowered) == ()


@fact
async def a_lane_that_was_deleted_is_not_served_before_the_others(world: World) -> None:
    """It waits for its turn as if it had stayed."""
    for number in range(3):
        await world.add(f"waiting-{number}", downstream="waiting")
    claimed = []
    for number in range(8):
        await world.add(f"back-{number}", downstream="back")
        claim = await world.claim_one()
        claimed.append(claim.job_id)
        await world.finish(claim, Completed())
        world.pass_time(1)
        rule = RetentionRule("work", JobStatus.COMPLETE, max_age=0.5)
        await world.store.delete_finished(rule, now=world.now)
    assert {f"waiting-{number}" for number in range(3)} <= set(claimed), claimed
