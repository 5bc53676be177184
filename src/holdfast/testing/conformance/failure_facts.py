"""Facts about what is kept of failed attempts, and about kinds that no worker knows."""

from holdfast.errors import ErrorCode
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    DeadLetterReason,
    Failed,
    Finished,
    JobError,
    JobStatus,
    LastError,
    Released,
    Retry,
)
from holdfast.jobs.store_port import FailedJob
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact

TRACEBACK = 'Traceback (most recent call last):\n  File "é.py", line 1\nValueError: no'
BROKEN_FIRST = LastError(BROKEN.code, BROKEN.message, 1)


@fact
async def the_traceback_of_a_failed_attempt_is_stored_with_it(world: World) -> None:
    """Also of several reports in one tick, of which only some have one."""
    await world.finish(await world.start("a"), Retry(5, BROKEN), traceback=TRACEBACK)
    world.pass_time(5)
    await world.finish(await world.claim_one(), Failed(BROKEN))
    assert [attempt.traceback for attempt in await world.store.attempts("a")] == [TRACEBACK, None]
    for name in ("b", "c", "d"):
        await world.add(name)
    claims = {claim.job_id: claim for claim in await world.claim(3)}
    reports = [
        Finished(claims["b"].lease, Completed()),
        Finished(claims["c"].lease, Retry(5, BROKEN)),
        Finished(claims["d"].lease, Failed(BROKEN), traceback=TRACEBACK),
    ]
    await world.tick(reports)
    found = {name: (await world.store.attempts(name))[0].traceback for name in claims}
    assert found == {"b": None, "c": None, "d": TRACEBACK}
    world.pass_time(5)
    assert (await world.claim_one()).job_id == "c"
    assert [attempt.traceback for attempt in await world.store.attempts("c")] == [None, None]


@fact
async def any_text_of_a_traceback_can_be_stored(world: World) -> None:
    awkward = "\x00 \ud800 ' \" \\ é\n" + "x" * 20_000
    await world.finish(await world.start("a"), Failed(BROKEN), traceback=awkward)
    (attempt,) = await world.store.attempts("a")
    assert attempt.traceback is not None
    assert "' \" \\ é\n" in attempt.traceback
    assert len(attempt.traceback) == len(awkward)


@fact
async def a_refused_report_stores_no_traceback(world: World) -> None:
    zombie = await world.start("a")
    world.pass_time(LEASE + 1)
    await world.store.rescue(now=world.now)
    heir = await world.claim_one("heir")
    assert (await world.finish(zombie, Failed(BROKEN), traceback=TRACEBACK)).refused
    await world.finish(heir, Completed())
    assert [attempt.traceback for attempt in await world.store.attempts("a")] == [None, None]


@fact
async def a_job_has_its_last_error_while_it_waits_runs_again_and_has_failed(world: World) -> None:
    claim = await world.start("a")
    assert (await world.job("a")).last_error is None
    await world.finish(claim, Retry(5, BROKEN))
    job = await world.job("a")
    assert (job.status, job.error, job.last_error) == (JobStatus.QUEUED, None, BROKEN_FIRST)
    world.pass_time(5)
    second = await world.claim_one()
    assert (await world.job("a")).last_error == BROKEN_FIRST
    slow = JobError(ErrorCode.GW_TIMEOUT, "too slow")
    await world.finish(second, Failed(slow))
    job = await world.job("a")
    assert (job.error, job.last_error) == (slow, LastError(slow.code, slow.message, 2))
    await world.store.retry(["a"], now=world.now)
    assert (await world.job("a")).last_error == LastError(slow.code, slow.message, 2)
    await world.finish(await world.claim_one(), Completed())
    assert (await world.job("a")).last_error is None


@fact
async def the_last_error_outlasts_what_is_no_failure(world: World) -> None:
    """A release, an expedited start and a request to cancel add events without an error."""
    await world.finish(await world.start("a"), Retry(60, BROKEN))
    await world.store.expedite("a", now=world.now)
    assert (await world.job("a")).last_error == BROKEN_FIRST
    await world.finish(await world.claim_one(), Released())
    assert (await world.job("a")).last_error == BROKEN_FIRST
    claim = await world.claim_one()
    await world.store.cancel("a", now=world.now)
    assert (await world.job("a")).last_error == BROKEN_FIRST
    await world.finish(claim, Cancelled())
    assert (await world.job("a")).last_error is None
    await world.finish(await world.start("b"), Released())
    assert (await world.job("b")).last_error is None


@fact
async def a_list_has_the_last_error_of_each_of_its_jobs(world: World) -> None:
    for name in ("fresh", "waiting", "lost", "done"):
        await world.add(name)
    claims = {claim.job_id: claim for claim in await world.claim(4)}
    await world.finish(claims["fresh"], Released())
    await world.finish(claims["waiting"], Retry(600, BROKEN))
    await world.finish(claims["done"], Completed())
    world.pass_time(LEASE + 1)
    await world.store.rescue(now=world.now)
    page = await world.store.list_jobs(now=world.now)
    errors = {job.id: job.last_error for job in page.jobs}
    lost = errors.pop("lost")
    assert lost is not None
    assert (lost.code, lost.attempt) == (ErrorCode.LEASE_LOST, 1)
    assert errors == {"fresh": None, "waiting": BROKEN_FIRST, "done": None}


@fact
async def a_waiting_kind_that_no_worker_knows_is_found(world: World) -> None:
    """Until a worker that knows it registers, or its jobs are gone."""
    store = world.store
    first, second = store.heartbeats(["work"]), (await world.open_second()).heartbeats(["other"])
    await world.add("known")
    await world.add("waits", "other")
    await world.add("later", "other", run_at=world.now + 60)
    assert await store.unknown_kinds("one") == {}
    await first.register("one")
    assert await store.unknown_kinds("one") == {"other": 2}
    await second.register("two")
    assert await store.unknown_kinds("one") == {}
    await world.add("lonely", "third")
    assert await store.unknown_kinds("two") == {"third": 1}
    await store.cancel("lonely", now=world.now)
    assert await store.unknown_kinds("two") == {}
    await first.close()
    await second.close()


@fact
async def no_kind_is_unknown_while_a_worker_does_not_say_what_it_knows(world: World) -> None:
    """Workers of the release before register without their kinds."""
    silent, asking = world.store.heartbeats(), (await world.open_second()).heartbeats(["work"])
    await silent.register("silent")
    await asking.register("asking")
    await world.add("a", "other")
    assert await world.store.unknown_kinds("asking") == {}
    await silent.close()
    await asking.close()


@fact
async def a_job_of_a_kind_without_dead_letters_that_the_store_ends_is_none(world: World) -> None:
    """A deadline before, during and after an attempt, a dead worker, and no attempt left."""
    assert await world.store.declare_dead_letters({"work": False, "other": True}) == 1
    assert await world.store.declare_dead_letters({"work": False, "other": True}) == 0
    late = world.now + 10
    running = await world.start("running", deadline_at=late)
    tried = await world.start("tried", max_attempts=1)
    await world.finish(tried, Retry(5, BROKEN))
    await world.start("found", deadline_at=late)
    await world.start("lost", max_attempts=1)
    await world.add("waiting", deadline_at=late)
    await world.add("scheduled", deadline_at=late, run_at=late + 2 * LEASE)
    world.pass_time(LEASE)
    await world.finish(running, Completed())
    claimed = await world.tick([], 5)
    assert claimed.timed_out == (FailedJob("waiting", dead_letter=False),)
    expired = await world.store.expire_deadlines(now=world.now)
    rescued = await world.store.rescue(now=world.now)
    assert {job.job_id for job in expired} == {"found", "scheduled"}
    assert rescued.dead == ("lost",)
    assert not any(job.dead_letter for job in (*expired, *rescued.jobs))
    for name in ("running", "tried", "found", "lost", "waiting", "scheduled"):
        job = await world.job(name)
        assert (job.status, job.dead_letter) == (JobStatus.FAILED, None)
    assert (await world.store.stats()).dead_letters == 0
    assert await world.store.dead_letter_groups() == ()


@fact
async def a_kind_has_dead_letters_again_once_it_is_declared_so(world: World) -> None:
    await world.store.declare_dead_letters({"work": False})
    assert await world.store.declare_dead_letters({"work": True}) == 1
    await world.add("late", deadline_at=world.now + 1)
    world.pass_time(2)
    (expired,) = await world.store.expire_deadlines(now=world.now)
    assert expired.dead_letter
    assert (await world.job("late")).dead_letter is DeadLetterReason.DEADLINE


@fact
async def what_a_worker_reports_of_dead_letters_holds_whatever_is_declared(world: World) -> None:
    """Its own declaration may be newer than the stored one."""
    await world.store.declare_dead_letters({"work": False})
    await world.run("dead", Failed(BROKEN, DeadLetterReason.ATTEMPTS_EXHAUSTED))
    await world.run("not", Failed(BROKEN, None))
    assert (await world.job("dead")).dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED
    assert (await world.job("not")).dead_letter is None
    assert (await world.store.stats()).dead_letters == 1
