"""Facts about held jobs: every place that says whether a job is held says the same."""

from dataclasses import replace
from itertools import product

from holdfast.jobs.control_port import PauseScope
from holdfast.jobs.downstreams.record import DownstreamRecord, HoldMode
from holdfast.jobs.held import HeldBy
from holdfast.resilience.breaker.transitions import Circuit, CircuitState
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing.conformance.world import World, fact


async def _write(
    world: World, name: str, circuit: Circuit, mode: HoldMode, breaker: BreakerPolicy | None
) -> DownstreamRecord:
    """Declare the downstream `name` and store `circuit` in its record."""
    await world.declare(name, mode=mode, breaker=breaker)
    declared = await world.downstream(name)
    stored = await world.store.write_downstream(replace(declared, circuit=circuit), now=world.now)
    assert stored is not None
    return stored


async def _held_by(world: World, job_id: str) -> HeldBy | None:
    """Return what holds a job; the view for people must say the same."""
    job = await world.job(job_id)
    assert await world.tables.shown_held_by(job_id) == job.held_by, job_id
    return job.held_by


@fact
async def held_means_the_same_everywhere(world: World) -> None:
    """The record in Python, the job, the view for people, and what a claim takes."""
    # The view knows no other time than the database's; one second for clocks of low resolution.
    world.now = await world.store.ping() - 1
    circuits = {
        "closed": Circuit(),
        "open": Circuit(CircuitState.OPEN, open_until=world.now + 1000),
        "cooled": Circuit(CircuitState.OPEN, open_until=world.now - 1000),
        "half-open": Circuit(CircuitState.HALF_OPEN),
        "held-by-hand": Circuit(CircuitState.OPEN, open_until=None),
    }
    policies = {"with-breaker": BreakerPolicy(), "without-breaker": None}
    held = set()
    for state, mode, guarded in product(circuits, HoldMode, policies):
        name = f"{state} {mode} {guarded}"
        record = await _write(world, name, circuits[state], mode, policies[guarded])
        await world.add(name, downstream=name, queue=name)
        expected = record.holds_at(world.now)
        assert await _held_by(world, name) == (HeldBy.DOWNSTREAM if expected else None), name
        claims = await world.claim(queues=[name])
        assert (claims == ()) is expected, name
        if expected:
            held.add(name)
    by_hand = {f"held-by-hand {mode} {guarded}" for mode, guarded in product(HoldMode, policies)}
    assert held == by_hand | {"open hold with-breaker"}


@fact
async def a_job_that_is_not_due_or_not_queued_is_not_held(world: World) -> None:
    """Its downstream would hold it, but it waits for something else."""
    world.now = await world.store.ping() - 1
    circuit = Circuit(CircuitState.OPEN, open_until=None)
    await _write(world, "gateway", Circuit(), HoldMode.HOLD, BreakerPolicy())
    await world.start("running", downstream="gateway")
    record = await world.downstream()
    assert await world.store.write_downstream(replace(record, circuit=circuit), now=world.now)
    await world.add("due", downstream="gateway")
    await world.add("later", downstream="gateway", run_at=world.now + 1000)
    expected = {"running": None, "due": HeldBy.DOWNSTREAM, "later": None}
    assert {name: await _held_by(world, name) for name in expected} == expected


@fact
async def of_several_reasons_the_first_is_shown(world: World) -> None:
    """A paused queue, then a paused kind, then the downstream."""
    world.now = await world.store.ping() - 1
    by_hand = Circuit(CircuitState.OPEN, open_until=None)
    await _write(world, "gateway", by_hand, HoldMode.HOLD, BreakerPolicy())
    for queue, kind, downstream in product((False, True), repeat=3):
        name = f"{queue} {kind} {downstream}"
        await world.add(name, name, queue=name, downstream="gateway" if downstream else None)
        if queue:
            await world.store.pause(PauseScope.QUEUE, [name], now=world.now)
        if kind:
            await world.store.pause(PauseScope.KIND, [name], now=world.now)
        reasons = {HeldBy.QUEUE: queue, HeldBy.KIND: kind, HeldBy.DOWNSTREAM: downstream}
        holders = [holder for holder, holds in reasons.items() if holds]
        assert await _held_by(world, name) == (holders[0] if holders else None), name
