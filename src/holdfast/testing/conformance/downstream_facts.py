"""Facts about downstreams: held lanes, trial permits, versions."""

# ruff: noqa: D401 - the docstring of a fact states, it does not command

import asyncio
from dataclasses import replace
from typing import Any

from holdfast.jobs.downstreams.record import Admission, CallReport, HoldMode, Verdict, with_circuit
from holdfast.jobs.model import Completed, Failed, Finished, JobStatus, Released, Retry
from holdfast.resilience.breaker.transitions import Cause, CircuitState, Permit, move
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids


async def _open_gateway(world: World, waiting: int = 5, **settings: Any) -> None:
    """Declare `gateway`, open its breaker, and enqueue `waiting` jobs."""
    await world.declare(**settings)
    await world.add("first", downstream="gateway")
    claim = await world.claim_one()
    await world.finish(claim, Failed(BROKEN), Verdict.FAILURE)
    for number in range(waiting):
        await world.add(f"job-{number}", downstream="gateway")


@fact
async def a_failure_opens_the_breaker_in_the_same_tick(world: World) -> None:
    """The record changes with the report, and the tick returns it."""
    await world.declare()
    await world.add("a", downstream="gateway")
    claim = await world.claim_one()
    assert claim.admission is Admission.CALL
    result = await world.finish(claim, Retry(1, BROKEN), Verdict.FAILURE)
    (moved,) = result.moved
    assert (moved.name, moved.circuit.state) == ("gateway", CircuitState.OPEN)
    assert await world.store.downstream("gateway") == moved
    assert moved.circuit.open_until == world.now + 30


@fact
async def an_open_downstream_holds_its_jobs_and_no_others(world: World) -> None:
    """No attempt is made or counted; other lanes are claimed."""
    await _open_gateway(world)
    await world.add("free")
    result = await world.tick([], 10)
    assert ids(result.claims) == ["free"]
    assert result.wake_at == world.now + 30
    job = await world.job("job-0")
    assert (job.status, job.attempt_count, job.held) == (JobStatus.QUEUED, 0, True)
    assert not (await world.job("free")).held


@fact
async def a_new_lane_of_an_open_downstream_is_held_too(world: World) -> None:
    """Another queue, another kind: the same breaker."""
    await _open_gateway(world)
    await world.add("b", "other", downstream="gateway")
    await world.add("c", queue="slow", downstream="gateway")
    assert await world.claim(queues=["default", "slow"]) == ()
    assert (await world.job("c")).held


@fact
async def after_the_cooldown_only_trial_calls_run(world: World) -> None:
    """Two permits in the whole fleet, whatever the number of workers and jobs."""
    await _open_gateway(world)
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
    record = await world.store.downstream("gateway")
    assert record is not None
    assert record.circuit.state is CircuitState.HALF_OPEN


@fact
async def successful_trials_close_the_breaker_and_end_the_hold(world: World) -> None:
    """One success is not enough, two are."""
    await _open_gateway(world)
    world.pass_time(30)
    first, second = await world.claim()
    await world.finish(first, Completed(), Verdict.SUCCESS)
    assert await world.claim() == ()
    result = await world.finish(second, Completed(), Verdict.SUCCESS)
    assert [record.circuit.state for record in result.moved] == [CircuitState.CLOSED]
    assert len(await world.claim()) == 3


@fact
async def a_failed_trial_opens_it_again(world: World) -> None:
    """For another cooldown, in which its lanes are held."""
    await _open_gateway(world)
    world.pass_time(30)
    first, second = await world.claim()
    await world.finish(first, Retry(0, BROKEN), Verdict.FAILURE)
    assert await world.claim() == ()
    await world.finish(second, Completed(), Verdict.SUCCESS)
    record = await world.store.downstream("gateway")
    assert record is not None
    assert record.circuit.state is CircuitState.OPEN
    assert record.circuit.open_until == world.now + 30
    assert record.trips == 1


@fact
async def a_trial_without_a_verdict_releases_its_permit(world: World) -> None:
    """Neither success nor failure: another trial may run."""
    await _open_gateway(world)
    world.pass_time(30)
    first, _ = await world.claim()
    await world.finish(first, Released(), Verdict.NEITHER)
    (again,) = await world.claim()
    assert again.admission is Admission.TRIAL


@fact
async def a_trial_permit_lasts_as_long_as_its_lease(world: World) -> None:
    """However long it runs; and a dead worker's permit is not lost."""
    await _open_gateway(world)
    world.pass_time(30)
    trials = await world.claim()
    world.pass_time(LEASE - 1)
    await world.store.heartbeats().extend([claim.lease for claim in trials], LEASE, now=world.now)
    world.pass_time(LEASE - 1)
    assert await world.claim() == ()
    world.pass_time(2)
    await world.store.rescue(now=world.now)
    assert len(await world.claim()) == 2


@fact
async def results_of_an_earlier_generation_are_discarded(world: World) -> None:
    """Calls started before the breaker opened do not count."""
    await world.declare()
    for name in ("a", "b"):
        await world.add(name, downstream="gateway")
    a, b = await world.claim()
    await world.finish(a, Failed(BROKEN), Verdict.FAILURE)
    opened = await world.store.downstream("gateway")
    await world.finish(b, Failed(BROKEN), Verdict.FAILURE)
    assert await world.store.downstream("gateway") == opened


@fact
async def a_refused_report_does_not_count_for_the_breaker(world: World) -> None:
    """A zombie's failure is ignored."""
    await world.declare()
    await world.add("a", downstream="gateway")
    zombie = await world.claim_one()
    world.pass_time(LEASE)
    await world.store.rescue(now=world.now)
    await world.finish(zombie, Failed(BROKEN), Verdict.FAILURE)
    record = await world.store.downstream("gateway")
    assert record is not None
    assert record.circuit.state is CircuitState.CLOSED


@fact
async def a_success_that_changes_nothing_writes_nothing(world: World) -> None:
    """No record is written while the breaker is closed without failures."""
    await world.declare()
    before = await world.store.downstream("gateway")
    await world.add("a", downstream="gateway")
    await world.finish(await world.claim_one(), Completed(), Verdict.SUCCESS)
    assert await world.store.downstream("gateway") == before


@fact
async def the_rate_rule_counts_over_time(world: World) -> None:
    """Half of at least four calls in two minutes; old ones leave the window."""
    policy = BreakerPolicy(
        consecutive_failures=None, failure_rate=0.5, window_seconds=120, minimum_calls=4
    )
    await world.declare(breaker=policy)

    async def call(name: str, verdict: Verdict) -> CircuitState:
        await world.add(name, downstream="gateway")
        await world.finish(await world.claim_one(), Completed(), verdict)
        record = await world.store.downstream("gateway")
        assert record is not None
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
async def a_fail_fast_downstream_claims_and_refuses(world: World) -> None:
    """Claims are refusals while it is open; after the cooldown trials come first."""
    await _open_gateway(world, mode=HoldMode.FAIL_FAST)
    assert not (await world.job("job-0")).held
    refused = await world.claim(2)
    assert [claim.admission for claim in refused] == [Admission.REFUSED] * 2
    world.pass_time(30)
    rest = await world.claim(3)
    assert [claim.admission for claim in rest] == [
        Admission.TRIAL,
        Admission.TRIAL,
        Admission.REFUSED,
    ]


@fact
async def a_manual_hold_holds_until_it_is_released(world: World) -> None:
    """However much time passes, in every mode."""
    await world.declare(mode=HoldMode.FAIL_FAST)
    record = await world.store.downstream("gateway")
    assert record is not None
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
    record = await world.store.downstream("gateway")
    assert record is not None
    first = await world.store.write_downstream(replace(record, trips=1), now=world.now)
    assert first is not None
    assert first.version > record.version
    assert await world.store.write_downstream(replace(record, trips=2), now=world.now) is None
    assert await world.store.downstream("gateway") == first


@fact
async def declaring_again_keeps_the_breakers_state(world: World) -> None:
    """Settings change, the circuit stays; the same settings change nothing."""
    await _open_gateway(world)
    before = await world.store.downstream("gateway")
    assert before is not None
    await world.store.declare_downstreams([before.settings], now=world.now)
    assert await world.store.downstream("gateway") == before
    await world.declare(concurrency=7)
    after = await world.store.downstream("gateway")
    assert after is not None
    assert (after.circuit, after.settings.concurrency) == (before.circuit, 7)
    assert [record.name for record in await world.store.downstreams()] == ["gateway"]
    assert await world.store.downstream("missing") is None


@fact
async def excluded_errors_are_not_stored(world: World) -> None:
    """Only the verdict needs them; declaring them again changes nothing."""
    policy = BreakerPolicy(exclude=(KeyError,))
    await world.declare(breaker=policy)
    first = await world.store.downstream("gateway")
    await world.declare(breaker=policy)
    assert await world.store.downstream("gateway") == first


@fact
async def a_report_on_an_unknown_downstream_is_ignored(world: World) -> None:
    """The outcome is still accepted."""
    await world.add("a", downstream="unknown")
    claim = await world.claim_one()
    report = CallReport("unknown", Permit(0), Verdict.FAILURE)
    result = await world.tick([Finished(claim.lease, Completed(), report=report)])
    assert result.moved == ()
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def a_change_to_fail_fast_ends_the_hold(world: World) -> None:
    """A change of settings is seen by the next claim."""
    await _open_gateway(world)
    assert await world.claim() == ()
    await world.declare(mode=HoldMode.FAIL_FAST)
    assert len(await world.claim()) == 5


@fact
async def after_closing_the_number_of_running_jobs_grows_gradually(world: World) -> None:
    """Twice the trial calls at first, then more, finally all."""
    await _open_gateway(world, waiting=40, ramp_seconds=80.0)
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
