"""Facts about requests of people: cancel, retry, discard."""

from dataclasses import replace

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    EventName,
    Failed,
    JobError,
    JobStatus,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import Change, Deleted, Overruled
from holdfast.jobs.views import JobFilter
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids


@fact
async def a_job_that_is_not_running_is_cancelled_at_once(world: World) -> None:
    await world.add("a", status=JobStatus.UPLOADED)
    await world.add("b")
    await world.add("c", run_at=world.now + 60)
    for name in ("a", "b", "c"):
        assert await world.store.cancel(name, now=world.now) is Change.DONE
        assert await world.store.cancel(name, now=world.now) is Change.DONE
        job = await world.job(name)
        assert (job.status, job.finished_at) == (JobStatus.CANCELLED, world.now)
    assert await world.claim() == ()
    assert (await world.lane()).cancelled == 3


@fact
async def a_running_job_is_asked_to_cancel_through_its_heartbeat(world: World) -> None:
    """The worker is notified, stops the handler, and the job is cancelled."""
    await world.add("a")
    await world.add("b")
    a, b = await world.claim()
    assert await world.store.cancel("a", now=world.now) is Change.REQUESTED
    assert await world.store.cancel("a", now=world.now) is Change.REQUESTED
    job = await world.job("a")
    assert (job.status, job.cancel_requested) == (JobStatus.PROCESSING, True)
    extended = await world.extend([a.lease, b.lease])
    assert (extended.cancel_requested, extended.lost) == (("a",), ())
    await world.finish(a, Cancelled())
    job = await world.job("a")
    assert (job.status, job.cancel_requested) == (JobStatus.CANCELLED, False)
    names = await world.event_names("a")
    assert names.count(EventName.CANCEL_REQUESTED) == 1


@fact
async def a_job_that_completes_before_the_notification_is_complete(world: World) -> None:
    claim = await world.start("a")
    await world.store.cancel("a", now=world.now)
    await world.finish(claim, Completed())
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def a_job_with_a_cancel_request_is_not_retried(world: World) -> None:
    """Neither after a failure or a release, nor when its worker dies."""
    trial = Retry(5, BROKEN, counted=False)
    outcomes: list[Outcome] = [Retry(5, BROKEN), Released(), trial]
    for name, outcome in zip("abd", outcomes, strict=True):
        claim = await world.start(name)
        await world.store.cancel(name, now=world.now)
        result = await world.finish(claim, outcome)
        assert result.overruled == (Overruled(claim.lease, JobStatus.CANCELLED),)
        assert (await world.job(name)).status is JobStatus.CANCELLED
    await world.start("c")
    await world.store.cancel("c", now=world.now)
    world.pass_time(LEASE)
    assert (await world.store.rescue(now=world.now)).cancelled == ("c",)
    assert (await world.job("c")).status is JobStatus.CANCELLED


@fact
async def a_finished_job_cannot_be_cancelled(world: World) -> None:
    await world.run("a", Completed())
    await world.run("b", Failed(BROKEN))
    assert await world.store.cancel("a", now=world.now) is Change.REFUSED
    assert await world.store.cancel("b", now=world.now) is Change.REFUSED
    assert await world.store.cancel("missing", now=world.now) is Change.MISSING


@fact
async def a_waiting_job_can_be_expedited(world: World) -> None:
    """Before its retry or its first run; nothing is counted, and repeating it changes nothing."""
    await world.finish(await world.start("a"), Retry(60, BROKEN))
    await world.add("b", run_at=world.now + 99)
    before = await world.job("a")
    world.pass_time(10)
    for name in ("a", "b", "a"):
        assert await world.store.expedite(name, now=world.now) is Change.DONE
        job = await world.job(name)
        assert (job.status, job.ready_at) == (JobStatus.QUEUED, world.now)
    assert await world.job("a") == replace(before, ready_at=world.now)
    counts = await world.lane()
    assert (counts.ready, counts.scheduled) == (2, 0)
    names = await world.event_names("a")
    assert names.count(EventName.EXPEDITED) == 1
    assert await world.total("manual_retries") == 0
    claims = await world.claim()
    assert {claim.job_id: claim.attempt for claim in claims} == {"a": 2, "b": 1}


@fact
async def only_a_queued_job_can_be_expedited(world: World) -> None:
    """A ready or due job keeps its position."""
    await world.add("later", run_at=world.now + 5)
    due = world.now + 5
    await world.start("running")
    await world.run("complete", Completed())
    await world.run("failed", Failed(BROKEN))
    await world.add("uploaded", status=JobStatus.UPLOADED, run_at=world.now + 99)
    for name in ("running", "complete", "failed", "uploaded"):
        before = await world.job(name)
        assert await world.store.expedite(name, now=world.now) is Change.REFUSED
        assert await world.job(name) == before
    assert await world.store.expedite("missing", now=world.now) is Change.MISSING
    world.pass_time(10)
    assert await world.store.expedite("later", now=world.now) is Change.DONE
    assert (await world.job("later")).ready_at == due
    names = await world.event_names("later")
    assert names == [EventName.QUEUED]
    assert ids(await world.claim()) == ["later"]


@fact
async def an_expedited_job_of_a_held_downstream_stays_held(world: World) -> None:
    await world.declare()
    await world.finish(
        await world.start("first", downstream="gateway"), Retry(60, BROKEN), Verdict.FAILURE
    )
    assert await world.store.expedite("first", now=world.now) is Change.DONE
    assert await world.claim() == ()
    assert (await world.job("first")).held


@fact
async def a_manual_retry_resets_the_attempts_and_keeps_history(world: World) -> None:
    """failed → queued: attempts at zero, error gone, the count of manual retries up."""
    await world.run("a", Failed(BROKEN), max_attempts=1)
    world.pass_time(60)
    assert await world.store.retry(["a"], now=world.now) == (Change.DONE,)
    job = await world.job("a")
    assert (job.status, job.attempt_count, job.manual_retry_count) == (JobStatus.QUEUED, 0, 1)
    assert (job.error, job.dead_letter, job.finished_at) == (None, None, None)
    assert (job.queued_at, job.ready_at, job.started_at) == (world.now, world.now, None)
    assert len(await world.store.attempts("a")) == 1
    claim = await world.claim_one()
    await world.finish(claim, Completed("1"))
    assert [attempt.token for attempt in await world.store.attempts("a")] == [1, 2]
    names = await world.event_names("a")
    assert names.index(EventName.FAILED) < names.index(EventName.MANUAL_RETRY)
    assert await world.total("manual_retries") == 1


@fact
async def only_failed_jobs_can_be_retried_by_hand(world: World) -> None:
    await world.run("a", Failed(BROKEN))
    await world.run("b", Completed())
    await world.add("c")
    answers = await world.store.retry(["b", "missing", "a", "c", "a"], now=world.now)
    refused = Change.REFUSED
    assert answers == (refused, Change.MISSING, Change.DONE, refused, refused)


@fact
async def a_retry_is_refused_if_a_twin_exists(world: World) -> None:
    await world.run("a", Failed(BROKEN), dedup_key="k")
    await world.add("b", dedup_key="k")
    assert await world.store.retry(["a"], now=world.now) == (Change.TWIN,)
    refused = await world.job("a")
    assert (refused.status, refused.has_twin, refused.can_retry) == (JobStatus.FAILED, True, False)
    assert not (await world.job("b")).has_twin
    await world.store.cancel("b", now=world.now)
    assert (await world.job("a")).can_retry


@fact
async def of_twins_that_are_retried_together_the_first_one_given_runs(world: World) -> None:
    for first, second in (("a", "b"), ("d", "c")):
        await world.run(first, Failed(BROKEN), dedup_key=first)
        await world.run(second, Failed(BROKEN), dedup_key=first)
        changes = await world.store.retry([first, second], now=world.now)
        assert changes == (Change.DONE, Change.TWIN)
        assert (await world.claim_one()).job_id == first


@fact
async def a_retry_after_the_deadline_removes_it(world: World) -> None:
    await world.add("a", deadline_at=world.now + 10)
    await world.add("b", deadline_at=world.now + 1000)
    world.pass_time(11)
    await world.store.expire_deadlines(now=world.now)
    await world.finish(await world.claim_one(), Failed(BROKEN))
    await world.store.retry(["a", "b"], now=world.now)
    assert (await world.job("a")).deadline_at is None
    assert (await world.job("b")).deadline_at == world.now + 989
    assert set(ids(await world.claim())) == {"a", "b"}


@fact
async def dead_letters_have_reason_attempts_error_and_time(world: World) -> None:
    await world.run("a", Failed(BROKEN), max_attempts=2)
    world.pass_time(1)
    await world.run("b", Failed(BROKEN))
    await world.run("c", Failed(BROKEN, None))
    await world.run("d", Completed())
    letters, cursor = await world.store.dead_letters()
    assert [letter.job.id for letter in letters] == ["b", "a"]
    assert cursor is None
    first = letters[1]
    assert (first.attempts_made, first.last_error, first.at) == (1, BROKEN, world.now - 1)
    assert first.reason is not None


@fact
async def dead_letters_are_listed_in_pages(world: World) -> None:
    """Each is listed once, also if many failed at the same time."""
    for number in range(5):
        await world.run(f"job-{number}", Failed(BROKEN))
    seen: list[str] = []
    cursor = None
    for _ in range(3):
        letters, cursor = await world.store.dead_letters(cursor=cursor, limit=2)
        seen += [letter.job.id for letter in letters]
    assert cursor is None
    assert sorted(seen) == [f"job-{number}" for number in range(5)]


@fact
async def dead_letters_are_grouped_by_similar_failures(world: World) -> None:
    """Numbers, ids and quoted values do not distinguish failures; codes and kinds do."""
    messages = ["page 3 of 'a.pdf' is broken", "page 17 of 'b.pdf' is broken", "no memory"]
    for number, message in enumerate(messages):
        await world.run(f"job-{number}", Failed(JobError(ErrorCode.PARSE_ERROR, message)))
        world.pass_time(1)
    groups = await world.store.dead_letter_groups()
    assert [(group.count, group.example_id) for group in groups] == [(2, "job-1"), (1, "job-2")]
    assert groups[0].code is ErrorCode.PARSE_ERROR
    assert groups[0].newest_at == world.now - 2
    await world.store.retry(["job-1"], now=world.now)
    groups = await world.store.dead_letter_groups()
    assert {group.example_id for group in groups} == {"job-0", "job-2"}
    assert {group.count for group in groups} == {1}


@fact
async def the_dead_letters_of_a_group_are_listed_in_pages(world: World) -> None:
    for number in range(6):
        message = "no memory" if number % 2 else f"page {number} is broken"
        await world.run(f"job-{number}", Failed(JobError(ErrorCode.PARSE_ERROR, message)))
        world.pass_time(1)
    group = (await world.store.dead_letter_groups())[1]
    where = JobFilter(kinds=(group.kind,), error_code=group.code, error_group=group.message)
    first, cursor = await world.store.dead_letters(where, limit=2)
    last, end = await world.store.dead_letters(where, cursor=cursor, limit=2)
    assert [letter.job.id for letter in first + last] == ["job-4", "job-2", "job-0"]
    assert end is None


@fact
async def a_discarded_dead_letter_keeps_its_job(world: World) -> None:
    """It stays failed, with its history, until retention deletes it."""
    await world.run("a", Failed(BROKEN))
    await world.run("b", Failed(BROKEN))
    assert await world.store.discard(["a", "a", "missing"], now=world.now) == 1
    assert await world.store.discard(["a"], now=world.now) == 0
    letters, _ = await world.store.dead_letters()
    assert [letter.job.id for letter in letters] == ["b"]
    job = await world.job("a")
    assert (job.status, job.dead_letter, job.error) == (JobStatus.FAILED, None, BROKEN)
    assert (await world.store.events("a"))[-1].name is EventName.DISCARDED
    assert (await world.store.stats()).dead_letters == 1


@fact
async def finished_jobs_are_deleted_by_id_with_their_history(world: World) -> None:
    """Of any kind and status; the rest of the list is left alone, and so are other jobs."""
    await world.run("complete", Completed('"r"'), owner="ann", meta='{"f":1}')
    await world.run("failed", Failed(BROKEN), kind="other")
    await world.run("kept", Completed())
    await world.start("running")
    await world.add("waiting", run_at=world.now + 60)
    named = ["waiting", "failed", "running", "complete", "missing", "failed"]
    deleted = {job.id: job for job in await world.store.delete(named)}
    assert deleted == {
        "complete": Deleted("complete", "work", JobStatus.COMPLETE, "ann", '{"f":1}', '"r"'),
        "failed": Deleted("failed", "other", JobStatus.FAILED, None, None, None),
    }
    for name in deleted:
        assert await world.store.get(name) is None
        assert await world.store.events(name) == ()
        assert await world.store.attempts(name) == ()
    left = {job.id for job in (await world.store.list_jobs()).jobs}
    assert left == {"kept", "running", "waiting"}
    assert await world.store.events("kept") != ()
    assert await world.store.dead_letter_groups() == ()
    assert sum(lane.complete + lane.failed for lane in (await world.store.stats()).lanes) == 1
    assert await world.total("deleted") == 2
    assert await world.store.delete(named) == ()
    assert await world.store.delete([]) == ()


@fact
async def a_deleted_job_leaves_its_id_and_its_key_free(world: World) -> None:
    await world.run("a", Completed(), dedup_key="key")
    await world.store.delete(["a"])
    await world.add("a", dedup_key="key")
    assert ids(await world.claim()) == ["a"]
