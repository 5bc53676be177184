"""Facts about counters: maintained in the same transaction, always equal to a recount."""

import random
from collections import Counter

from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    Failed,
    Job,
    JobStatus,
    NewJob,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import RetentionRule
from holdfast.testing.conformance.world import BROKEN, World, fact


async def _all_jobs(world: World) -> list[Job]:
    jobs: list[Job] = []
    cursor = None
    while True:
        page = await world.store.list_jobs(cursor=cursor, limit=100, now=world.now)
        jobs += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return jobs


async def check_counters(world: World) -> None:
    """Compare every counter with a count of the jobs themselves."""
    jobs = await _all_jobs(world)
    counted = Counter((job.queue, job.downstream, job.kind, job.status) for job in jobs)
    stats = await world.store.stats()
    kept: Counter[tuple[str, str | None, str, JobStatus]] = Counter()
    for lane in stats.lanes:
        place = (lane.queue, lane.downstream, lane.kind)
        kept[*place, JobStatus.UPLOADED] = lane.uploaded
        kept[*place, JobStatus.QUEUED] = lane.ready + lane.scheduled
        kept[*place, JobStatus.PROCESSING] = lane.processing
        kept[*place, JobStatus.COMPLETE] = lane.complete
        kept[*place, JobStatus.FAILED] = lane.failed
        kept[*place, JobStatus.CANCELLED] = lane.cancelled
    assert +kept == counted
    dead = [job for job in jobs if job.dead_letter is not None]
    assert stats.dead_letters == len(dead)
    groups = await world.store.dead_letter_groups()
    assert Counter(job.kind for job in dead) == sum(
        (Counter({group.kind: group.count}) for group in groups), Counter()
    )


@fact
async def counters_follow_every_move(world: World) -> None:
    await world.add("u", status=JobStatus.UPLOADED)
    await world.add("s", run_at=world.now + 50)
    for name in ("a", "b", "c", "d"):
        await world.add(name)
    lane = await world.lane()
    assert (lane.uploaded, lane.scheduled, lane.ready) == (1, 1, 4)
    a, b, c, _ = await world.claim()
    await world.finish(a, Completed())
    await world.finish(b, Failed(BROKEN))
    await world.finish(c, Cancelled())
    lane = await world.lane()
    assert (lane.ready, lane.processing) == (0, 1)
    assert (lane.complete, lane.failed, lane.cancelled) == (1, 1, 1)
    await world.store.submit("u", now=world.now)
    world.pass_time(50)
    await world.claim(0)
    lane = await world.lane()
    assert (lane.uploaded, lane.scheduled, lane.ready) == (0, 0, 2)


@fact
async def outcomes_are_counted_by_attempts_and_kept_after_retention(world: World) -> None:
    """Success rates can be computed without reading jobs."""
    await world.run("a", Completed())
    await world.finish(await world.start("b"), Retry(0, BROKEN))
    await world.finish(await world.claim_one(), Completed())
    await world.run("c", Failed(BROKEN))
    await world.store.delete_finished(
        RetentionRule("work", JobStatus.COMPLETE, max_count=0), now=world.now
    )
    outcomes = (await world.store.stats()).outcomes
    assert {(row.status, row.attempts): row.count for row in outcomes} == {
        (JobStatus.COMPLETE, 1): 1,
        (JobStatus.COMPLETE, 2): 1,
        (JobStatus.FAILED, 1): 1,
    }


@fact
async def counters_equal_a_recount_after_random_operations(world: World) -> None:
    """A long random walk over everything that moves jobs."""
    rng = random.Random(20_240_601)
    await world.declare()
    running: list[object] = []
    outcomes: list[Outcome] = [
        Completed("1"),
        Retry(0, BROKEN),
        Retry(20, BROKEN),
        Failed(BROKEN),
        Failed(BROKEN, None),
        Released(),
        Released(10),
        Cancelled(),
    ]
    for step in range(150):
        world.pass_time(rng.uniform(0, 15))
        jobs = [
            NewJob(
                f"job-{step}-{number}",
                rng.choice(["work", "other"]),
                queue=rng.choice(["default", "slow"]),
                downstream=rng.choice([None, "gateway"]),
                status=rng.choice([JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.UPLOADED]),
                max_attempts=rng.randint(1, 3),
                run_at=rng.choice([None, world.now + 25]),
                deadline_at=rng.choice([None, None, world.now + 40]),
                dedup_key=rng.choice([None, "k1", "k2"]),
            )
            for number in range(rng.randint(0, 3))
        ]
        answers = await world.store.enqueue(jobs, now=world.now)
        for answer in answers:
            if rng.random() < 0.3:
                await world.store.submit(answer.id, now=world.now)
            if rng.random() < 0.1:
                await world.store.cancel(answer.id, now=world.now)
        claims = await world.claim(rng.randint(0, 4), queues=("default", "slow"))
        for claim in claims:
            verdict = rng.choice([Verdict.SUCCESS, Verdict.FAILURE, Verdict.NEITHER])
            if rng.random() < 0.15:
                await world.store.cancel(claim.job_id, now=world.now)
            if rng.random() < 0.8:
                await world.finish(claim, rng.choice(outcomes), verdict)
        running += claims
        if step % 5 == 0:
            await world.store.rescue(now=world.now)
            await world.store.expire_deadlines(now=world.now)
        if step % 11 == 0:
            letters, _ = await world.store.dead_letters(limit=5)
            names = [letter.job.id for letter in letters]
            await world.store.retry(names[:3], now=world.now)
            await world.store.discard(names[3:], now=world.now)
        if step % 17 == 0:
            for status in (JobStatus.COMPLETE, JobStatus.FAILED, JobStatus.CANCELLED):
                rule = RetentionRule("work", status, max_age=60, max_count=4)
                await world.store.delete_finished(rule, limit=3, now=world.now)
        if step % 25 == 24:
            await check_counters(world)
    await check_counters(world)
    assert len(running) > 50
