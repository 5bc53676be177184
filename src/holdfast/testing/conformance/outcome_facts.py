"""Facts about how attempts end, and how history records them."""

from itertools import product

from holdfast.errors import ErrorCode
from holdfast.jobs.model import (
    AttemptOutcome,
    Cancelled,
    Completed,
    DeadLetterReason,
    EventName,
    Failed,
    JobError,
    JobStatus,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.report_rules import target_status
from holdfast.jobs.store_port import Overruled, Refusal
from holdfast.testing.conformance.world import BROKEN, World, fact


@fact
async def a_completed_job_has_its_result_and_no_lease(world: World) -> None:
    claim = await world.start("a")
    world.pass_time(2)
    await world.finish(claim, Completed('{"pages": 3}'))
    job = await world.job("a")
    assert (job.status, job.result) == (JobStatus.COMPLETE, '{"pages": 3}')
    assert (job.completed_at, job.finished_at, job.failed_at) == (world.now, world.now, None)
    assert (job.worker_id, job.lease_expires_at, job.error) == (None, None, None)
    assert (job.started_at, job.last_attempt_at) == (world.now - 2, world.now - 2)


@fact
async def history_records_every_step(world: World) -> None:
    await world.finish(
        await world.start("a", owner="ann"), Retry(5, BROKEN), duration=1.5, meta='{"s":502}'
    )
    world.pass_time(5)
    await world.finish(await world.claim_one(), Completed(), duration=0.25)
    events = await world.store.events("a")
    assert [(event.name, event.attempt) for event in events] == [
        (EventName.QUEUED, 0),
        (EventName.PROCESSING, 1),
        (EventName.RETRY, 1),
        (EventName.PROCESSING, 2),
        (EventName.COMPLETE, 2),
    ]
    retry, complete = events[2], events[4]
    assert (retry.duration_ms, retry.error_code) == (1500.0, ErrorCode.GW_5XX)
    assert retry.meta == '{"s":502}'
    assert (complete.duration_ms, complete.error_code, complete.at) == (250.0, None, world.now)
    assert {event.owner for event in events} == {"ann"}
    assert {event.kind for event in events} == {"work"}
    sequences = [event.sequence for event in events]
    assert sequences == sorted(set(sequences))


@fact
async def attempts_keep_their_own_errors_and_the_waiting_job_has_none(world: World) -> None:
    await world.finish(await world.start("a", worker="one"), Retry(5, BROKEN), duration=1.0)
    assert (await world.job("a")).error is None
    world.pass_time(5)
    other = JobError(ErrorCode.GW_TIMEOUT, "too slow")
    await world.finish(await world.claim_one("two"), Failed(other), duration=2.0)
    first, second = await world.store.attempts("a")
    assert (first.number, first.token, first.worker_id) == (1, 1, "one")
    assert (first.outcome, first.error, first.retry_after) == (AttemptOutcome.RETRY, BROKEN, 5.0)
    assert (first.started_at, first.finished_at) == (world.now - 5, world.now - 5)
    assert first.duration == 1.0
    assert (second.number, second.token, second.worker_id) == (2, 2, "two")
    assert (second.outcome, second.error) == (AttemptOutcome.FAILED, other)
    assert (await world.job("a")).error == other


@fact
async def a_running_attempt_is_listed_without_an_end(world: World) -> None:
    claim = await world.start("a")
    (attempt,) = await world.store.attempts("a")
    assert (attempt.number, attempt.token) == (claim.attempt, claim.lease.token)
    assert (attempt.worker_id, attempt.started_at) == ("worker-1", world.now)
    assert (attempt.finished_at, attempt.outcome) == (None, None)


@fact
async def a_duration_that_is_not_given_is_measured(world: World) -> None:
    claim = await world.start("a")
    world.pass_time(7)
    await world.finish(claim, Completed())
    (attempt,) = await world.store.attempts("a")
    assert attempt.duration == 7.0


@fact
async def a_failed_job_is_a_dead_letter_with_its_reason(world: World) -> None:
    job = await world.run("a", Failed(BROKEN, DeadLetterReason.ATTEMPTS_EXHAUSTED))
    assert (job.status, job.error) == (JobStatus.FAILED, BROKEN)
    assert (job.dead_letter, job.is_dead_letter) == (DeadLetterReason.ATTEMPTS_EXHAUSTED, True)
    assert job.failed_at == world.now
    plain = await world.run("b", Failed(BROKEN, None))
    assert not plain.is_dead_letter


@fact
async def any_text_of_an_exception_can_be_stored(world: World) -> None:
    """Null bytes, lone surrogates, quotes and length do not stop a failure from being recorded."""
    awkward = "\x00 \ud800 ' \" \\ é " + "x" * 10_000
    job = await world.run("a", Failed(JobError(ErrorCode.UNKNOWN, awkward)))
    assert job.error is not None
    assert "' \" \\ é" in job.error.message
    (attempt,) = await world.store.attempts("a")
    assert attempt.error == job.error
    await world.finish(await world.start("b"), Completed('"\ud800é"'), meta='"\ud800"')
    result = (await world.job("b")).result
    assert result is not None
    assert "é" in result


@fact
async def a_retry_without_an_attempt_left_is_a_dead_letter(world: World) -> None:
    claim = await world.start("a", max_attempts=1)
    result = await world.finish(claim, Retry(5, BROKEN))
    assert result.overruled == (Overruled(claim.lease, JobStatus.FAILED),)
    job = await world.job("a")
    assert (job.status, job.error) == (JobStatus.FAILED, BROKEN)
    assert job.dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED


@fact
async def an_uncounted_retry_undoes_the_attempt_count(world: World) -> None:
    """History keeps its error, and the job waits as after any other failure."""
    await world.finish(await world.start("a"), Retry(5, BROKEN))
    world.pass_time(5)
    await world.finish(await world.claim_one(), Retry(7, BROKEN, counted=False), duration=1.0)
    job = await world.job("a")
    assert (job.status, job.attempt_count, job.token) == (JobStatus.QUEUED, 1, 2)
    assert (job.error, job.ready_at, job.retry_after) == (None, world.now + 7, world.now + 7)
    counts = await world.lane()
    assert (counts.scheduled, counts.processing) == (1, 0)
    _, trial = await world.store.attempts("a")
    assert (trial.number, trial.outcome, trial.error) == (2, AttemptOutcome.RETRY, BROKEN)
    assert (trial.retry_after, trial.duration) == (7.0, 1.0)
    event = (await world.store.events("a"))[-1]
    assert (event.name, event.attempt, event.error_code) == (EventName.RETRY, 2, BROKEN.code)
    world.pass_time(7)
    claim = await world.claim_one()
    assert (claim.attempt, claim.lease.token) == (2, 3)


@fact
async def an_uncounted_retry_does_not_exhaust_the_attempts(world: World) -> None:
    """Not even on the last attempt, or repeatedly; without a delay the job is ready."""
    await world.add("a", max_attempts=1)
    for token in range(1, 4):
        world.pass_time(1)
        claim = await world.claim_one()
        assert (claim.attempt, claim.lease.token) == (1, token)
        result = await world.finish(claim, Retry(0, BROKEN, counted=False))
        assert result.overruled == ()
        job = await world.job("a")
        assert (job.status, job.attempt_count) == (JobStatus.QUEUED, 0)
        assert (job.ready_at, job.retry_after) == (world.now, world.now)
    assert (await world.lane()).ready == 1
    result = await world.finish(await world.claim_one(), Retry(0, BROKEN))
    assert [overruled.status for overruled in result.overruled] == [JobStatus.FAILED]
    assert (await world.job("a")).attempt_count == 1


@fact
async def a_released_job_has_no_attempt_counted(world: World) -> None:
    await world.finish(await world.start("a", max_attempts=1), Released())
    job = await world.job("a")
    assert (job.status, job.attempt_count, job.token) == (JobStatus.QUEUED, 0, 1)
    claim = await world.claim_one()
    assert (claim.attempt, claim.lease.token) == (1, 2)
    released, running = await world.store.attempts("a")
    assert (released.outcome, released.number) == (AttemptOutcome.RELEASED, 1)
    assert running.number == 1
    names = await world.event_names("a")
    assert EventName.RELEASED in names


@fact
async def a_job_released_with_a_delay_waits(world: World) -> None:
    await world.finish(await world.start("a"), Released(after=30, reason="circuit_open"))
    assert await world.claim() == ()
    world.pass_time(30)
    assert len(await world.claim()) == 1


@fact
async def a_cancelled_attempt_ends_the_job(world: World) -> None:
    job = await world.run("a", Cancelled())
    assert (job.status, job.error, job.result) == (JobStatus.CANCELLED, None, None)
    assert (await world.store.attempts("a"))[0].outcome is AttemptOutcome.CANCELLED


@fact
async def a_result_after_the_deadline_is_late_even_before_the_deadline_check(world: World) -> None:
    """The time of arrival decides: failed with TIMEOUT, with a late result."""
    claim = await world.start("a", deadline_at=world.now + 10)
    world.pass_time(10.5)
    result = await world.finish(claim, Completed('"late"'))
    assert result.overruled == (Overruled(claim.lease, JobStatus.FAILED),)
    job = await world.job("a")
    assert job.error is not None
    assert (job.status, job.error.code, job.result) == (JobStatus.FAILED, ErrorCode.TIMEOUT, None)
    assert job.dead_letter is DeadLetterReason.DEADLINE
    (late,) = await world.store.late_results("a")
    assert (late.result, late.token, late.received_at) == ('"late"', 1, world.now)


@fact
async def a_result_at_the_deadline_counts(world: World) -> None:
    claim = await world.start("a", deadline_at=world.now + 10)
    world.pass_time(10)
    await world.finish(claim, Completed())
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def any_other_end_after_the_deadline_is_a_timeout_too(world: World) -> None:
    """A retry would never run, and the timeout overrides another failure."""
    trial = Retry(1, BROKEN, counted=False)
    outcomes: list[Outcome] = [Retry(1, BROKEN), Failed(BROKEN), Released(), trial]
    for name, outcome in zip("abcd", outcomes, strict=True):
        claim = await world.start(name, deadline_at=world.now + 10)
        world.pass_time(11)
        await world.finish(claim, outcome)
        job = await world.job(name)
        assert job.error is not None
        assert job.error.code is ErrorCode.TIMEOUT
        assert await world.store.late_results(name) == ()


@fact
async def a_result_after_timeout_is_stored_once_and_changes_no_status(world: World) -> None:
    claim = await world.start("a", deadline_at=world.now + 10)
    world.pass_time(11)
    (expired,) = await world.store.expire_deadlines(now=world.now)
    assert expired.job_id == "a"
    before = await world.job("a")
    for _ in range(2):
        result = await world.finish(claim, Completed('"late"'))
        assert [refused.reason for refused in result.refused] == [Refusal.LATE]
    assert await world.job("a") == before
    assert len(await world.store.late_results("a")) == 1
    assert await world.total("late_results") == 1
    assert (await world.store.events("a"))[-1].name is EventName.LATE_RESULT


@fact
async def progress_is_stored_under_the_lease_and_cleared_at_the_end(world: World) -> None:
    claim = await world.start("a")
    assert await world.store.progress(claim.lease, 0.5, "extracting", now=world.now)
    assert len(await world.store.events("a")) == 2
    assert await world.store.progress(claim.lease, 0.75, "indexing", record=True, now=world.now)
    job = await world.job("a")
    assert (job.progress, job.progress_note) == (0.75, "indexing")
    event = (await world.store.events("a"))[-1]
    assert event.name is EventName.PROGRESS
    assert event.meta is not None
    assert "indexing" in event.meta
    await world.finish(claim, Completed())
    assert (await world.job("a")).progress is None
    assert not await world.store.progress(claim.lease, 1.0, now=world.now)


@fact
async def a_report_moves_its_job_by_the_shared_rule(world: World) -> None:
    error = JobError(ErrorCode.GW_5XX, "x")
    outcomes: tuple[Outcome, ...] = (
        Completed(), Failed(error), Cancelled(), Released(), Retry(5, error),
        Retry(5, error, counted=False),
    )  # fmt: skip
    for number, (outcome, late, cancelled, exhausted) in enumerate(
        product(outcomes, (False, True), (False, True), (False, True))
    ):
        job_id = f"job-{number}"
        await world.add(
            job_id, max_attempts=1 if exhausted else 2, deadline_at=world.now + 10 if late else None
        )
        claim = await world.claim_one()
        if cancelled:
            await world.store.cancel(job_id, now=world.now)
        world.pass_time(20)
        await world.finish(claim, outcome)
        expected = target_status(
            outcome, past_deadline=late, cancel_requested=cancelled, attempts_left=not exhausted
        )
        found = (await world.job(job_id)).status
        assert found == expected, (outcome, late, cancelled, exhausted)
        if found is JobStatus.QUEUED:
            await world.store.cancel(job_id, now=world.now)
