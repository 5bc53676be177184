"""Facts about maintenance: rescue, deadlines, late results, retention, leadership."""

from itertools import product

from holdfast.errors import ErrorCode
from holdfast.jobs.model import (
    AttemptOutcome,
    Completed,
    DeadLetterReason,
    EventName,
    Failed,
    Finished,
    JobStatus,
    NewJob,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.report_rules import rescue_delay, rescued_status
from holdfast.jobs.store_port import FailedJob, Rescued, RetentionRule
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids, refusal

HOUR = 3600.0


@fact
async def a_job_with_an_expired_lease_runs_again(world: World) -> None:
    """Not earlier; the attempt count continues, and history records it."""
    await world.start("a")
    world.pass_time(LEASE - 0.5)
    assert (await world.store.rescue(now=world.now)).requeued == ()
    world.pass_time(0.5)
    assert (await world.store.rescue(now=world.now)).requeued == ("a",)
    job = await world.job("a")
    assert (job.status, job.worker_id, job.attempt_count) == (JobStatus.QUEUED, None, 1)
    assert (await world.claim_one()).attempt == 2
    lost = (await world.store.attempts("a"))[0]
    assert lost.error is not None
    assert (lost.outcome, lost.error.code) == (AttemptOutcome.LEASE_LOST, ErrorCode.LEASE_LOST)
    names = await world.event_names("a")
    assert EventName.LEASE_LOST in names
    assert await world.total("rescued") == 1


@fact
async def a_crash_loop_ends_in_the_dead_letters(world: World) -> None:
    await world.add("a", max_attempts=3)
    dead: tuple[str, ...] = ()
    for _ in range(3):
        assert dead == ()
        await world.claim_one()
        world.pass_time(LEASE)
        dead = (await world.store.rescue(now=world.now)).dead
    assert dead == ("a",)
    assert await world.claim() == ()
    job = await world.job("a")
    assert job.error is not None
    assert job.error.code is ErrorCode.LEASE_LOST
    assert job.dead_letter is DeadLetterReason.LEASE_LOST
    assert len(await world.store.attempts("a")) == 3


@fact
async def a_rescue_moves_jobs_by_the_shared_rule(world: World) -> None:
    expected = {}
    for number, (cancelled, exhausted) in enumerate(product((False, True), (False, True))):
        job_id = f"job-{number}"
        await world.add(job_id, max_attempts=1 if exhausted else 2)
        await world.claim_one()
        if cancelled:
            await world.store.cancel(job_id, now=world.now)
        expected[job_id] = rescued_status(cancel_requested=cancelled, attempts_left=not exhausted)
    world.pass_time(LEASE)
    await world.store.rescue(now=world.now)
    assert {job_id: (await world.job(job_id)).status for job_id in expected} == expected


@fact
async def jobs_that_lost_a_worker_after_the_first_attempt_come_back_one_by_one(
    world: World,
) -> None:
    """In the order of their creation; after the first attempt all of them at once."""
    names = [f"job-{number}" for number in range(4)]
    for name in names:
        await world.add(name, queue=f"queue-{name[-1]}", max_attempts=5)
    queues = [f"queue-{number}" for number in reversed(range(4))]
    for attempt in (1, 2):
        if attempt == 2:
            await world.add("new", max_attempts=5)
        assert len(await world.claim(queues=[*queues, "default"])) == 3 + attempt
        world.pass_time(LEASE)
        await world.store.rescue(now=world.now)
        ready = {name: (await world.job(name)).ready_at for name in names}
        assert ready == {
            name: world.now + rescue_delay(attempt, place) for place, name in enumerate(names)
        }
    assert (await world.job("new")).ready_at == world.now
    claims = await world.claim(queues=[*queues, "default"])
    assert sorted(ids(claims)) == ["job-0", "new"]
    world.pass_time(rescue_delay(2, 3))
    assert sorted(ids(await world.claim(queues=queues))) == names[1:]


@fact
async def many_jobs_that_lost_a_worker_again_are_all_back_within_ten_seconds(world: World) -> None:
    names = [f"job-{number:03d}" for number in range(120)]
    await world.store.enqueue([NewJob(name, "work", max_attempts=5) for name in names])
    for attempt in (1, 2):
        assert len(await world.claim(limit=len(names))) == len(names)
        world.pass_time(LEASE)
        await world.store.rescue(now=world.now)
        ready = {name: (await world.job(name)).ready_at for name in names}
        assert ready == {
            name: world.now + rescue_delay(attempt, place) for place, name in enumerate(names)
        }
    world.pass_time(10.0)
    assert len(await world.claim(limit=len(names))) == len(names)


@fact
async def a_claim_says_which_jobs_have_lost_a_worker(world: World) -> None:
    """Those that failed or were released have not. It is remembered over later attempts."""
    for name in ("lost", "tried"):
        await world.add(name, max_attempts=9)
    claims = {claim.job_id: claim for claim in await world.claim()}
    await world.finish(claims["tried"], Retry(0.0, BROKEN))
    world.pass_time(LEASE)
    await world.store.rescue(now=world.now)
    await world.add("new", max_attempts=9)
    for _ in range(2):
        result = await world.tick([], 10, with_lost_workers=True)
        marks = {claim.job_id: claim.lost_worker for claim in result.claims}
        assert marks == {"lost": True, "tried": False, "new": False}
        ends = [Finished(claim.lease, Released(reason="stop")) for claim in result.claims]
        await world.tick(ends)
    assert not any(claim.lost_worker for claim in await world.claim())


@fact
async def a_lost_worker_is_remembered_until_the_job_is_retried_by_hand(world: World) -> None:
    """However often the job is released meanwhile, and whatever its next attempts end with."""
    await world.add("job", max_attempts=9)
    await world.claim()
    world.pass_time(LEASE)
    await world.store.rescue(now=world.now)
    ends: list[Outcome] = [Released(reason="stop")] * 50
    for end in [*ends, Retry(0.0, BROKEN), Failed(BROKEN)]:
        (claim,) = (await world.tick([], 1, with_lost_workers=True)).claims
        assert claim.lost_worker
        await world.finish(claim, end)
    await world.store.retry(["job"], now=world.now)
    for _ in range(2):
        (claim,) = (await world.tick([], 1, with_lost_workers=True)).claims
        assert not claim.lost_worker
        await world.finish(claim, Retry(0.0, BROKEN))


@fact
async def a_lost_job_past_its_deadline_fails_with_timeout(world: World) -> None:
    """Whether an attempt is left or a cancel was requested: the deadline comes first."""
    for number, (cancelled, exhausted) in enumerate(product((False, True), (False, True))):
        job_id, attempts = f"job-{number}", 1 if exhausted else 2
        await world.add(job_id, max_attempts=attempts, deadline_at=world.now + 1)
        await world.claim_one()
        if cancelled:
            await world.store.cancel(job_id, now=world.now)
    world.pass_time(LEASE + 1)
    assert await world.store.rescue(now=world.now) == Rescued()
    expired = await world.store.expire_deadlines(now=world.now)
    assert sorted(job.job_id for job in expired) == ["job-0", "job-1", "job-2", "job-3"]
    for lost in expired:
        job = await world.job(lost.job_id)
        assert job.error is not None
        assert (job.status, job.error.code) == (JobStatus.FAILED, ErrorCode.TIMEOUT)
        (attempt,) = await world.store.attempts(lost.job_id)
        assert attempt.outcome is AttemptOutcome.TIMEOUT


@fact
async def maintenance_says_which_attempt_it_ended(world: World) -> None:
    await world.add("lost", max_attempts=3, owner="ann")
    await world.add("late", max_attempts=2, deadline_at=world.now + 1)
    await world.add("idle", max_attempts=2, deadline_at=world.now + 1, run_at=world.now + 99)
    assert len(await world.claim(2)) == 2
    world.pass_time(LEASE + 1)
    rescued = await world.store.rescue(now=world.now)
    assert rescued.jobs == (FailedJob("lost", "work", 1, 3, "ann"),)
    expired = await world.store.expire_deadlines(now=world.now)
    assert set(expired) == {FailedJob("late", "work", 1, 2), FailedJob("idle", "work", 0, 2)}


@fact
async def a_rescue_has_a_limit(world: World) -> None:
    for number in range(5):
        await world.start(f"job-{number}")
        world.pass_time(1)
    world.pass_time(LEASE)
    first = await world.store.rescue(limit=3, now=world.now)
    assert first.requeued == ("job-0", "job-1", "job-2")
    assert len((await world.store.rescue(limit=3, now=world.now)).requeued) == 2
    assert (await world.store.rescue(limit=3, now=world.now)).requeued == ()


@fact
async def a_deadline_fails_a_job_in_every_unfinished_status(world: World) -> None:
    deadline = world.now + 10
    claim = await world.start("running", deadline_at=deadline)
    await world.add("uploaded", status=JobStatus.UPLOADED, deadline_at=deadline)
    await world.add("queued", deadline_at=deadline)
    await world.add("waiting", run_at=world.now + 99, deadline_at=deadline)
    await world.add("free")
    world.pass_time(10)
    assert await world.store.expire_deadlines(now=world.now) == ()
    world.pass_time(0.5)
    expired = await world.store.expire_deadlines(now=world.now)
    names = sorted(job.job_id for job in expired)
    assert names == ["queued", "running", "uploaded", "waiting"]
    for name in names:
        job = await world.job(name)
        assert job.error is not None
        assert (job.status, job.error.code) == (JobStatus.FAILED, ErrorCode.TIMEOUT)
        assert (job.dead_letter, job.worker_id) == (DeadLetterReason.DEADLINE, None)
    (attempt,) = await world.store.attempts("running")
    assert (attempt.outcome, attempt.token) == (AttemptOutcome.TIMEOUT, claim.lease.token)
    assert ids(await world.claim()) == ["free"]
    assert await world.total("timed_out") == 4


@fact
async def deadlines_do_not_affect_finished_jobs(world: World) -> None:
    await world.run("a", Completed(), deadline_at=world.now + 10)
    world.pass_time(99)
    assert await world.store.expire_deadlines(now=world.now) == ()


@fact
async def deadlines_are_checked_in_batches(world: World) -> None:
    for number in range(4):
        await world.add(f"job-{number}", deadline_at=world.now + number)
    world.pass_time(10)
    expired = await world.store.expire_deadlines(limit=3, now=world.now)
    assert [job.job_id for job in expired] == ["job-0", "job-1", "job-2"]


@fact
async def a_late_result_can_be_stored_separately(world: World) -> None:
    """Once per token, and only if the job failed with TIMEOUT under that token."""
    await world.start("a", deadline_at=world.now + 10)
    assert not await world.store.store_late_result("a", 1, '"x"', now=world.now)
    world.pass_time(11)
    await world.store.expire_deadlines(now=world.now)
    assert not await world.store.store_late_result("a", 7, '"x"', now=world.now)
    assert await world.store.store_late_result("a", 1, '"x"', now=world.now)
    assert not await world.store.store_late_result("a", 1, '"y"', now=world.now)
    assert not await world.store.store_late_result("missing", 1, '"x"', now=world.now)
    (late,) = await world.store.late_results("a")
    assert late.result == '"x"'
    job = await world.job("a")
    assert (job.status, job.result) == (JobStatus.FAILED, None)


@fact
async def retention_by_age_deletes_the_job_and_all_its_history(world: World) -> None:
    """Of that kind and status only; the deleted jobs are returned."""
    await world.run("old", Completed('"r"'), owner="ann", meta='{"f":1}')
    await world.run("failed", Failed(BROKEN))
    await world.run("kind", Completed(), kind="other")
    world.pass_time(3600)
    await world.run("new", Completed())
    rule = RetentionRule("work", JobStatus.COMPLETE, max_age=3600)
    (deleted,) = await world.store.delete_finished(rule, now=world.now)
    assert (deleted.id, deleted.kind, deleted.status) == ("old", "work", JobStatus.COMPLETE)
    assert (deleted.owner, deleted.meta, deleted.result) == ("ann", '{"f":1}', '"r"')
    assert await world.store.get("old") is None
    assert await world.store.events("old") == ()
    assert await world.store.attempts("old") == ()
    assert {job.id for job in (await world.store.list_jobs()).jobs} == {"failed", "kind", "new"}
    assert (await world.store.delete_finished(rule, now=world.now)) == ()


@fact
async def retention_by_count_keeps_the_newest(world: World) -> None:
    for number in range(5):
        await world.run(f"job-{number}", Completed())
        world.pass_time(1)
    rule = RetentionRule("work", JobStatus.COMPLETE, max_age=1000, max_count=2)
    deleted = await world.store.delete_finished(rule, now=world.now)
    assert [job.id for job in deleted] == ["job-0", "job-1", "job-2"]
    assert await world.store.delete_finished(rule, now=world.now) == ()


@fact
async def a_lane_goes_away_with_its_last_job_and_comes_back(world: World) -> None:
    """Also for another process that remembers it."""
    second = await world.open_second()
    await world.run("a", downstream="host:a")
    await second.enqueue([NewJob("b", "work", downstream="host:a")], now=world.now)
    await world.finish(await world.claim_one(), Completed())
    await world.run("c", downstream="host:c")
    rule = RetentionRule("work", JobStatus.COMPLETE, max_count=1)
    assert len(await world.store.delete_finished(rule, now=world.now)) == 2
    await world.store.rescue(now=world.now)
    (lane,) = (await world.store.stats()).lanes
    assert lane.downstream == "host:c"
    for store, name in ((second, "d"), (world.store, "e")):
        await store.enqueue([NewJob(name, "work", downstream="host:a")], now=world.now)
    assert sorted(ids(await world.claim())) == ["d", "e"]


@fact
async def retention_works_in_batches_and_deletes_dead_letters(world: World) -> None:
    for number in range(3):
        await world.run(f"job-{number}", Failed(BROKEN))
        world.pass_time(1)
    world.pass_time(86400)
    rule = RetentionRule("work", JobStatus.FAILED, max_age=86400)
    assert len(await world.store.delete_finished(rule, limit=2, now=world.now)) == 2
    (group,) = await world.store.dead_letter_groups()
    assert (group.count, group.example_id) == (1, "job-2")
    assert len(await world.store.delete_finished(rule, limit=2, now=world.now)) == 1
    assert await world.store.dead_letter_groups() == ()
    assert not any(lane.failed for lane in (await world.store.stats()).lanes)
    assert await world.total("deleted") == 3


@fact
async def retention_refuses_unfinished_statuses(world: World) -> None:
    await world.add("a")
    rule = RetentionRule("work", JobStatus.QUEUED, max_age=0)
    with refusal("retention of queued jobs"):
        await world.store.delete_finished(rule, now=world.now)
    await world.job("a")


@fact
async def a_deleted_id_and_key_can_be_used_again(world: World) -> None:
    await world.run("a", Completed(), dedup_key="k")
    world.pass_time(10)
    await world.store.delete_finished(
        RetentionRule("work", JobStatus.COMPLETE, max_age=5), now=world.now
    )
    assert (await world.add("a", dedup_key="k")).created
    assert len(await world.store.events("a")) == 1


@fact
async def one_holder_leads_until_its_lease_expires(world: World) -> None:
    first = await world.store.lead("maintenance", "one", 10, now=world.now)
    assert first is not None
    assert (first.holder, first.expires_at) == ("one", world.now + 10)
    assert await world.store.lead("maintenance", "two", 10, now=world.now) is None
    world.pass_time(9)
    renewed = await world.store.lead("maintenance", "one", 10, now=world.now)
    assert renewed is not None
    assert renewed.term == first.term
    world.pass_time(9)
    assert await world.store.lead("maintenance", "two", 10, now=world.now) is None
    world.pass_time(1)
    second = await world.store.lead("maintenance", "two", 10, now=world.now)
    assert second is not None
    assert second.term > first.term
    assert await world.store.lead("maintenance", "one", 10, now=world.now) is None
    other = await world.store.lead("other", "one", 10, now=world.now)
    assert other is not None


@fact
async def a_leadership_that_nobody_competes_for_is_forgotten(world: World) -> None:
    """An hour after it expired; the terms of the others go on."""
    for name in ("old", "present"):
        assert await world.store.lead(name, "one", 10, now=world.now) is not None
    world.pass_time(HOUR)
    assert await world.store.lead("present", "two", 10, now=world.now) is not None
    await world.store.rescue(now=world.now)
    world.pass_time(10)
    await world.store.rescue(now=world.now)
    terms = {}
    for name in ("old", "present"):
        leadership = await world.store.lead(name, "three", 10, now=world.now)
        assert leadership is not None
        terms[name] = leadership.term
    assert terms == {"old": 1, "present": 3}


@fact
async def after_a_resignation_the_next_holder_leads_at_once(world: World) -> None:
    await world.store.lead("maintenance", "one", 10, now=world.now)
    assert not await world.store.resign("maintenance", "two")
    assert await world.store.resign("maintenance", "one")
    assert not await world.store.resign("maintenance", "one")
    assert await world.store.lead("maintenance", "two", 10, now=world.now) is not None
