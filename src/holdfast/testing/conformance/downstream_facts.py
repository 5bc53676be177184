"""Facts about downstreams: held lanes, trial permits, versions."""

import asyncio
from dataclasses import replace

from holdfast.jobs.downstreams.record import Admission, CallReport, HoldMode, Verdict, with_circuit
from holdfast.jobs.model import Completed, Failed, Finished, JobStatus, Released, Retry
from holdfast.resilience.breaker.transitions import Cause, CircuitState, Permit, move
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids


@fact
async def a_failure_opens_the_breaker_in_the_same_tick(world: World) -> None:
    await world.declare()
    claim = await world.start("a", downstream="gateway")
    assert claim.admission is Admission.CALL
    result = await world.finish(claim, Retry(1, BROKEN), Verdict.FAILURE)
    (moved,) = result.moved
    assert (moved.name, moved.circuit.state) == ("gateway", CircuitState.OPEN)
    assert await world.downstream() == moved
    assert moved.circuit.open_until == world.now + 30


@fact
async def an_open_downstream_holds_its_jobs_and_no_others(world: World) -> None:
    """No attempt is made or counted; other lanes are claimed."""
    await world.open_gateway()
    await world.add("free")
    result = await world.tick([], 10)
    assert ids(result.claims) == ["free"]
    assert result.wake_at == world.now + 30
    job = await world.job("job-0")
    assert (job.status, job.attempt_count, job.held) == (JobStatus.QUEUED, 0, True)
    assert not (await world.job("free")).held


@fact
async def a_new_lane_of_an_open_downstream_is_held_too(world: World) -> None:
    await world.open_gateway()
    await world.add("b", "other", downstream="gateway")
    await world.add("c", queue="slow", downstream="gateway")
    assert await world.claim(queues=["default", "slow"]) == ()
    assert (await world.job("c")).held


@fact
async def after_the_cooldown_only_trial_calls_run(world: World) -> None:
    """Two permits in the whole fleet, whatever the number of workers and jobs."""
    await world.open_gateway()
    world.pass_time(30)
    assert not (await world.job("job-0")).held
    second = await world.open_second()
    claims = await asyncio.gather(
        world.claim(10, "worker-1"), world.claim(10, "worker-2", store=second)
    )
    trials = [claim for some in claims for claim in some]
    assert len(trials) == 2
    assert {claim.admission for claim in trials} == {Admission.TRIAL}
    assert await world.claim() == ()
    record = await world.downstream()
    assert record.circuit.state is CircuitState.HALF_OPEN


@fact
async def successful_trials_close_the_breaker_and_end_the_hold(world: World) -> None:
    await world.open_gateway()
    world.pass_time(30)
    first, second = await world.claim()
    await world.finish(first, Completed(), Verdict.SUCCESS)
    assert await world.claim() == ()
    result = await world.finish(second, Completed(), Verdict.SUCCESS)
    assert [record.circuit.state for record in result.moved] == [CircuitState.CLOSED]
    assert len(await world.claim()) == 3


@fact
async def a_failed_trial_opens_it_again(world: World) -> None:
    await world.open_gateway()
    world.pass_time(30)
    first, second = await world.claim()
    await world.finish(first, Retry(0, BROKEN), Verdict.FAILURE)
    assert await world.claim() == ()
    await world.finish(second, Completed(), Verdict.SUCCESS)
    record = await world.downstream()
    assert record.circuit.state is CircuitState.OPEN
    assert record.circuit.open_until == world.now + 30
    assert record.trips == 1


@fact
async def a_trial_without_a_verdict_releases_its_permit(world: World) -> None:
    await world.open_gateway()
    world.pass_time(30)
    first, _ = await world.claim()
    await world.finish(first, Released(), Verdict.NEITHER)
    (again,) = await world.claim()
    assert again.admission is Admission.TRIAL


@fact
async def a_trial_permit_lasts_as_long_as_its_lease(world: World) -> None:
    """However long it runs; and a dead worker's permit is not lost."""
    await world.open_gateway()
    world.pass_time(30)
    trials = await world.claim()
    world.pass_time(LEASE - 1)
    await world.extend([claim.lease for claim in trials])
    world.pass_time(LEASE - 1)
    assert await world.claim() == ()
    world.pass_time(2)
    await world.store.rescue(now=world.now)
    assert len(await world.claim()) == 2


@fact
async def results_of_an_earlier_generation_are_discarded(world: World) -> None:
    await world.declare()
    for name in ("a", "b"):
        await world.add(name, downstream="gateway")
    a, b = await world.claim()
    await world.finish(a, Failed(BROKEN), Verdict.FAILURE)
    opened = await world.downstream()
    await world.finish(b, Failed(BROKEN), Verdict.FAILURE)
    assert await world.downstream() == opened


@fact
async def a_refused_report_does_not_count_for_the_breaker(world: World) -> None:
    await world.declare()
    zombie = await world.start("a", downstream="gateway")
    world.pass_time(LEASE)
    await world.store.rescue(now=world.now)
    await world.finish(zombie, Failed(BROKEN), Verdict.FAILURE)
    record = await world.downstream()
    assert record.circuit.state is CircuitState.CLOSED


@fact
async def a_success_that_changes_nothing_writes_nothing(world: World) -> None:
    await world.declare()
    before = await world.downstream()
    await world.finish(await world.start("a", downstream="gateway"), Completed(), Verdict.SUCCESS)
    assert await world.downstream() == before


async def _report_in_turn(world: World, *calls: tuple[int, Verdict]) -> CircuitState:
    """Claim a job per call, then report them in one tick in the order given; return the state."""
    await world.declare(breaker=BreakerPolicy(consecutive_failures=5))
    for number in range(len(calls)):
        await world.add(f"job-{number}", downstream="gateway")
    claims = {claim.job_id: claim for claim in await world.claim(len(calls))}
    finished = []
    for number, verdict in calls:
        claim = claims[f"job-{number}"]
        assert claim.permit is not None
        outcome = Completed() if verdict is Verdict.SUCCESS else Retry(60, BROKEN)
        report = CallReport("gateway", claim.permit, verdict)
        finished.append(Finished(claim.lease, outcome, report=report))
    await world.tick(finished)
    record = await world.store.downstream("gateway")
    assert record is not None
    return record.circuit.state


@fact
async def failures_that_alternate_with_successes_are_no_streak(world: World) -> None:
    """The order of the reports counts, which is that of the calls' ends; not that of the jobs."""
    calls = [
        call
        for number in range(5)
        for call in ((number, Verdict.FAILURE), (number + 5, Verdict.SUCCESS))
    ]
    assert await _report_in_turn(world, *calls) is CircuitState.CLOSED


@fact
async def failures_after_successes_are_a_streak_in_whatever_order_their_jobs_came(
    world: World,
) -> None:
    """Every other job succeeds, and after that the calls of the jobs between them fail."""
    calls = [(number, Verdict.SUCCESS) for number in range(0, 10, 2)]
    calls += [(number, Verdict.FAILURE) for number in range(1, 10, 2)]
    assert await _report_in_turn(world, *calls) is CircuitState.OPEN


@fact
async def the_rate_rule_counts_over_time(world: World) -> None:
    """Half of at least four calls in two minutes; old ones leave the window."""
    policy = BreakerPolicy(
        consecutive_failures=None, failure_rate=0.5, window_seconds=120, minimum_calls=4
    )
    await world.declare(breaker=policy)

    async def call(name: str, verdict: Verdict) -> CircuitState:
        await world.finish(await world.start(name, downstream="gateway"), Completed(), verdict)
        record = await world.downstream()
        return record.circuit.state

    for number in range(3):
        assert await call(f"old-{number}", Verdict.FAILURE) is CircuitState.CLOSED
    world.pass_time(130)
    for number in range(2):
        assert await call(f"good-{number}", Verdict.SUCCESS) is CircuitState.CLOSED
    for number in range(2):
        assert await call(f"bad-{number}", Verdict.FAILURE) is CircuitState.CLOSED
    assert await call("last", Verdict.FAILURE) is CircuitState.OPEN


@fact
async def the_rate_rule_is_judged_after_every_call_and_can_open_at_the_limit(world: World) -> None:
    """The third call is a success; with it there are enough calls, and two of three failed."""
    above = BreakerPolicy(consecutive_failures=None, failure_rate=2 / 3, minimum_calls=3)
    verdicts = [Verdict.FAILURE, Verdict.FAILURE, Verdict.SUCCESS]
    for name, policy, expected in (
        ("at", replace(above, rate_rule="at_least"), CircuitState.OPEN),
        ("above", above, CircuitState.CLOSED),
        ("below", replace(above, failure_rate=0.6), CircuitState.OPEN),
    ):
        await world.declare(name, breaker=policy)
        for number, verdict in enumerate(verdicts):
            await world.add(f"{name}-{number}", downstream=name)
            await world.finish(await world.claim_one(), Completed(), verdict)
        record = await world.store.downstream(name)
        assert record is not None
        assert (record.circuit.state, record.settings.breaker) == (expected, policy)


@fact
async def a_fail_fast_downstream_claims_and_refuses(world: World) -> None:
    """Claims are refusals while it is open; after the cooldown trials come first."""
    await world.open_gateway(mode=HoldMode.FAIL_FAST)
    assert not (await world.job("job-0")).held
    refused = await world.claim(2)
    assert [claim.admission for claim in refused] == [Admission.REFUSED] * 2
    world.pass_time(30)
    rest = await world.claim(3)
    trial = Admission.TRIAL
    assert [claim.admission for claim in rest] == [trial, trial, Admission.REFUSED]


@fact
async def a_manual_hold_holds_until_it_is_released(world: World) -> None:
    """However much time passes, in every mode."""
    await world.declare(mode=HoldMode.FAIL_FAST)
    record = await world.downstream()
    policy = record.settings.breaker
    assert policy is not None
    held = with_circuit(record, move(record.circuit, Cause.HOLD, policy, world.now), world.now)
    stored = await world.store.write_downstream(held, now=world.now)
    assert stored is not None
    await world.add("a", downstream="gateway")
    world.pass_time(1_000_000)
    assert await world.claim() == ()
    assert (await world.job("a")).held
    free = with_circuit(stored, move(stored.circuit, Cause.RESET, policy, world.now), world.now)
    assert await world.store.write_downstream(free, now=world.now) is not None
    assert ids(await world.claim()) == ["a"]


@fact
async def a_write_with_an_old_version_is_refused(world: World) -> None:
    """Compare-and-set: the second writer reads again."""
    await world.declare()
    record = await world.downstream()
    first = await world.store.write_downstream(replace(record, trips=1), now=world.now)
    assert first is not None
    assert first.version > record.version
    assert await world.store.write_downstream(replace(record, trips=2), now=world.now) is None
    assert await world.downstream() == first


@fact
async def declaring_again_keeps_the_breakers_state(world: World) -> None:
    """Settings change, the circuit stays; the same settings change nothing."""
    await world.open_gateway()
    before = await world.downstream()
    await world.store.declare_downstreams([before.settings], now=world.now)
    assert await world.downstream() == before
    await world.declare(concurrency=7)
    after = await world.downstream()
    assert (after.circuit, after.settings.concurrency) == (before.circuit, 7)
    assert [record.name for record in await world.store.downstreams()] == ["gateway"]
    assert await world.store.downstream("missing") is None


@fact
async def breakers_that_are_not_closed_are_listed_by_themselves(world: World) -> None:
    """Open ones and those on trial, by name; not those that have closed again."""
    assert await world.store.troubled_downstreams() == ()
    await world.declare("mill")
    await world.open_gateway(waiting=2)
    (record,) = await world.store.troubled_downstreams()
    assert record == await world.downstream()
    world.pass_time(30)
    for claim in await world.claim():
        assert len(await world.store.troubled_downstreams()) == 1
        await world.finish(claim, Completed(), Verdict.SUCCESS)
    assert await world.store.troubled_downstreams() == ()


@fact
async def excluded_errors_are_not_stored(world: World) -> None:
    """Only the verdict needs them; declaring them again changes nothing."""
    policy = BreakerPolicy(exclude=(KeyError,))
    await world.declare(breaker=policy)
    first = await world.downstream()
    await world.declare(breaker=policy)
    assert await world.downstream() == first


@fact
async def a_report_on_an_unknown_downstream_is_ignored(world: World) -> None:
    claim = await world.start("a", downstream="unknown")
    report = CallReport("unknown", Permit(0), Verdict.FAILURE)
    result = await world.tick([Finished(claim.lease, Completed(), report=report)])
    assert result.moved == ()
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def a_change_to_fail_fast_ends_the_hold(world: World) -> None:
    await world.open_gateway()
    assert await world.claim() == ()
    await world.declare(mode=HoldMode.FAIL_FAST)
    assert len(await world.claim()) == 5


@fact
async def after_closing_the_number_of_running_jobs_grows_gradually(world: World) -> None:
    """Twice the trial calls at first, then more, finally all."""
    await world.open_gateway(waiting=40, ramp_seconds=80.0)
    world.pass_time(30)
    result = await world.tick([])
    for claim in await world.claim():
        result = await world.finish(claim, Completed(), Verdict.SUCCESS)
    assert [record.circuit.state for record in result.moved] == [CircuitState.CLOSED]
    first = await world.claim(50)
    assert len(first) == 4
    world.pass_time(11)
    second = await world.claim(50)
    assert len(second) == 4
    finished = [Finished(claim.lease, Completed()) for claim in (*first, *second)]
    world.pass_time(80)
    assert len((await world.tick(finished, 50)).claims) == 30


@fact
async def one_job_runs_until_a_downstream_has_answered(world: World) -> None:
    """Then all that wait, and after a failure one again."""
    policy = BreakerPolicy(consecutive_failures=5)
    await world.declare(breaker=policy, unproven_concurrency=1)
    for number in range(6):
        await world.add(f"job-{number}", downstream="gateway")
    (first,) = await world.claim(4)
    assert await world.claim(4) == ()
    await world.finish(first, Completed(), Verdict.SUCCESS)
    second, third, _ = await world.claim(3)
    await world.finish(second, Failed(BROKEN), Verdict.FAILURE)
    assert await world.claim(4) == ()
    await world.finish(third, Completed(), Verdict.SUCCESS)
    assert len(await world.claim(4)) == 2
