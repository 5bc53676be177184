"""Facts about the jobs that serve as trial calls of a half-open breaker."""

from holdfast.jobs.downstreams.claim_permits import grant_call
from holdfast.jobs.downstreams.record import Admission, CallReport, Verdict, judge, with_circuit
from holdfast.jobs.model import Claim, Completed, EventName, JobStatus, Retry
from holdfast.resilience.breaker.transitions import Cause, CircuitState, move
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids

_OPEN_FOR = 30.0
_LONG = Retry(600, BROKEN)


async def _trials(world: World) -> tuple[Claim, ...]:
    """Wait until the breaker is half open, and claim its two trials."""
    world.pass_time(_OPEN_FOR)
    claims = await world.claim()
    assert [claim.admission for claim in claims] == [Admission.TRIAL] * 2
    return claims


async def _close(world: World) -> None:
    """Let two trials succeed."""
    for claim in await _trials(world):
        await world.finish(claim, Completed(), Verdict.SUCCESS)
    assert (await world.downstream()).circuit.state is CircuitState.CLOSED


@fact
async def a_failed_trial_is_an_attempt_of_its_job(world: World) -> None:
    """The last one that a job has makes it a dead letter."""
    await world.open_gateway(waiting=0)
    await world.add("a", downstream="gateway", max_attempts=2)
    await world.add("b", downstream="gateway", max_attempts=1)
    a, b = await _trials(world)
    await world.finish(a, Retry(0, BROKEN), Verdict.FAILURE)
    await world.finish(b, Retry(0, BROKEN), Verdict.FAILURE)
    assert (await world.job("a")).attempt_count == 1
    assert (await world.job("b")).status is JobStatus.FAILED


@fact
async def trials_go_round_the_waiting_jobs(world: World) -> None:
    """A job whose trial failed is tried again after all others, even if it is ready at once."""
    await world.open_gateway(waiting=6)
    tried = []
    for _ in range(4):
        trials = await _trials(world)
        tried += ids(trials)
        for claim in trials:
            await world.finish(claim, Retry(0, BROKEN), Verdict.FAILURE)
    assert tried == [f"job-{number}" for number in (0, 1, 2, 3, 4, 5, 0, 1)]


@fact
async def trials_keep_the_order_of_priorities(world: World) -> None:
    """Jobs of a lower priority are tried while those of a higher one wait for their retries."""
    await world.open_gateway(waiting=0)
    for name, priority in (("low-0", 0), ("low-1", 0), ("high-0", 1), ("high-1", 1)):
        await world.add(name, downstream="gateway", priority=priority)
    for after, tried in ((0, "high"), (_OPEN_FOR * 1.25, "high"), (0, "low"), (600, "high")):
        trials = await _trials(world)
        assert sorted(ids(trials)) == [f"{tried}-0", f"{tried}-1"]
        for claim in trials:
            await world.finish(claim, Retry(after, BROKEN), Verdict.FAILURE)
    # While it was not tried it kept its attempts.
    assert (await world.job("low-0")).attempt_count == 1
    await _close(world)
    assert (await world.job("low-0")).status is JobStatus.COMPLETE


@fact
async def jobs_whose_trials_failed_go_on_when_the_breaker_closes(world: World) -> None:
    """They do not wait for their retry; also the one whose report came after the reopening."""
    await world.open_gateway(waiting=4)
    for claim in await _trials(world):
        await world.finish(claim, _LONG, Verdict.FAILURE)
    assert (await world.lane()).scheduled == 2
    await _close(world)
    assert (await world.downstream()).trial_retries == ()
    lane = await world.lane()
    assert (lane.scheduled, lane.ready) == (0, 2)
    assert sorted(ids(await world.claim())) == ["job-0", "job-1"]
    assert EventName.EXPEDITED in await world.event_names("job-0")


@fact
async def a_job_whose_trial_fails_after_the_breaker_closed_goes_on_at_once(world: World) -> None:
    """Its verdict is of an earlier generation and no longer counts."""
    await world.open_gateway(waiting=4)
    slow, failing = await _trials(world)
    await world.finish(failing, _LONG, Verdict.FAILURE)
    await _close(world)
    await world.finish(slow, _LONG, Verdict.FAILURE)
    assert (await world.downstream()).circuit.state is CircuitState.CLOSED
    assert sorted(ids(await world.claim())) == ["job-0", "job-1"]


@fact
async def a_job_whose_trial_was_asked_to_wait_does_so_after_the_breaker_closed(
    world: World,
) -> None:
    """It waits as long as it was asked to, which may be less than until its retry."""
    await world.open_gateway(waiting=4)
    brief, long = await _trials(world)
    await world.finish(brief, _LONG, Verdict.FAILURE, asked=_OPEN_FOR)
    await world.finish(long, _LONG, Verdict.FAILURE, asked=200)
    until = world.now + 200
    await _close(world)
    assert ids(await world.claim()) == [brief.job_id]
    lane = await world.lane()
    assert (lane.scheduled, lane.ready) == (1, 0)
    assert (await world.job(long.job_id)).ready_at == until
    assert EventName.EXPEDITED not in await world.event_names(long.job_id)
    world.pass_time(until - world.now - 1)
    assert await world.claim() == ()
    world.pass_time(1)
    assert ids(await world.claim()) == [long.job_id]


@fact
async def a_job_whose_trial_was_asked_to_wait_until_its_retry_keeps_its_time(world: World) -> None:
    await world.open_gateway(waiting=3)
    first, second = await _trials(world)
    await world.finish(first, Retry(600, BROKEN), Verdict.FAILURE, asked=600)
    await world.finish(second, Retry(0, BROKEN), Verdict.FAILURE)
    until = (await world.job(first.job_id)).ready_at
    await _close(world)
    assert (await world.job(first.job_id)).ready_at == until
    assert await world.claim() == ()


@fact
async def a_reset_by_hand_lets_the_jobs_of_failed_trials_go_on(world: World) -> None:
    await world.open_gateway(waiting=2)
    for claim in await _trials(world):
        await world.finish(claim, _LONG, Verdict.FAILURE)
    record = await world.downstream()
    policy = record.settings.breaker
    assert policy is not None
    closed = with_circuit(record, move(record.circuit, Cause.RESET, policy, world.now), world.now)
    assert await world.store.write_downstream(closed, now=world.now) is not None
    assert sorted(ids(await world.claim())) == ["job-0", "job-1"]


@fact
async def a_job_that_waits_for_another_reason_is_not_hurried_when_the_breaker_closes(
    world: World,
) -> None:
    """Its failed trial was long ago: it has run since, and waits for what that attempt met."""
    await world.open_gateway(waiting=1)
    for verdict in (Verdict.FAILURE, Verdict.NEITHER):
        world.pass_time(_OPEN_FOR)
        await world.finish(await world.claim_one(), _LONG, verdict)
        if verdict is Verdict.FAILURE:
            await world.store.expedite("job-0", now=world.now)
    for name in ("a", "b"):
        await world.add(name, downstream="gateway")
    await _close(world)
    assert await world.claim() == ()


@fact
async def the_permit_of_a_trial_ends_with_its_attempt(world: World) -> None:
    """A rescued job's permit is free at once, however long trials may take."""
    policy = BreakerPolicy(
        consecutive_failures=1, open_for=_OPEN_FOR, trial_calls=2, trial_timeout=9000
    )
    await world.open_gateway(breaker=policy)
    assert len(await _trials(world)) == 2
    world.pass_time(LEASE)
    assert await world.claim() == ()
    assert len((await world.store.rescue(now=world.now)).requeued) == 2
    assert [claim.admission for claim in await world.claim()] == [Admission.TRIAL] * 2


@fact
async def a_claim_keeps_the_trials_of_calls_outside_of_jobs(world: World) -> None:
    """No job's lease shows that they run, and their reports count as those of jobs do."""
    await world.open_gateway(waiting=2)
    world.pass_time(_OPEN_FOR)
    granted = grant_call(await world.downstream(), world.now, LEASE)
    assert await world.store.write_downstream(granted.record, now=world.now) is not None
    ((_, permit),) = granted.permits
    (claim,) = await world.claim()  # of two trials, one is taken
    await world.finish(claim, Completed(), Verdict.SUCCESS)
    judged = judge(
        await world.downstream(), [CallReport("gateway", permit, Verdict.SUCCESS)], world.now
    )
    assert judged.circuit.state is CircuitState.CLOSED
