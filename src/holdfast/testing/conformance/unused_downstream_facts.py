"""Facts about records of keyed downstreams, such as one for each host, that nothing uses."""

from typing import Any

from holdfast.jobs.downstreams.record import Admission, Verdict, with_circuit
from holdfast.jobs.model import Completed, Failed, Retry
from holdfast.resilience.breaker.transitions import Cause, CircuitState, Permit, move
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing.conformance.world import BROKEN, World, fact, ids

HOUR = 3600.0
UNUSED = 2 * 24 * HOUR
PATIENT = BreakerPolicy(consecutive_failures=5)


@fact
async def a_record_of_a_key_is_deleted_two_days_after_its_last_use(world: World) -> None:
    """Not one of another downstream, whose name may begin alike."""
    for name in ("host:a", "host:b"):
        await _declare(world, name)
    for name, parent in (("hosts:a", "hosts"), ("host:eu:a", "host:eu")):
        await _declare(world, name, parent=parent)
    world.pass_time(UNUSED - 1)
    assert await _deleted(world) == 0
    world.pass_time(1)
    assert await _deleted(world) == 2
    assert await _names(world) == ["host:eu:a", "hosts:a"]
    assert await _deleted(world, "host:eu") == 1


@fact
async def a_record_that_is_not_a_key_s_alone_is_never_deleted(world: World) -> None:
    """Its name may look like it; or it was declared without that key too, before or after."""
    declarations: dict[str, list[str | None]] = {
        "host": [None],
        "host:eu": [None],
        "host:before": [None, "host"],
        "host:after": ["host", None],
        "host:a:b": ["host", "host:a"],
    }
    for name, parents in declarations.items():
        for parent in parents:
            await _declare(world, name, parent=parent)
    world.pass_time(10 * UNUSED)
    assert [await _deleted(world), await _deleted(world, "host:a")] == [0, 0]
    for name in declarations:  # nor does a later declaration make it the key's
        await _declare(world, name)
        assert (await world.downstream(name)).settings.parent is None
    world.pass_time(10 * UNUSED)
    assert await _deleted(world) == 0
    assert await _names(world) == sorted(declarations)


@fact
async def a_record_whose_breaker_looks_at_a_longer_time_is_kept(world: World) -> None:
    for name, seconds in (("host:days", UNUSED), ("host:week", UNUSED + 1), ("host:calls", None)):
        rate = BreakerPolicy(failure_rate=0.5, window_seconds=seconds)
        await _declare(world, name, breaker=rate)
    await _declare(world, "host:none", breaker=None)
    for _ in range(3):
        world.pass_time(UNUSED)
        await _deleted(world)
    assert await _names(world) == ["host:week"]


@fact
async def a_record_that_is_declared_after_its_deletion_has_a_version_of_its_own(
    world: World,
) -> None:
    """What was read before the deletion can no longer be written."""
    await _declare(world, "host:a")
    first = await world.downstream("host:a")
    second = await world.store.write_downstream(first, now=world.now)
    assert second is not None
    world.pass_time(UNUSED)
    assert await _deleted(world) == 1
    await _declare(world, "host:a")
    assert (await world.downstream("host:a")).version > second.version
    assert await world.store.write_downstream(first, now=world.now) is None
    assert await world.store.write_downstream(second, now=world.now) is None


@fact
async def a_record_that_is_open_is_deleted_once_its_time_is_over(world: World) -> None:
    """Two days after its last use; a breaker that opens for longer is open until then."""
    week = 3.5 * UNUSED
    await _declare_open(world, "host:dead")
    await _declare_open(world, "host:week", open_for=week)
    world.pass_time(UNUSED - 1)
    assert await _deleted(world) == 0
    world.pass_time(1)
    assert await _deleted(world) == 1
    assert await _names(world) == ["host:week"]
    world.pass_time(week - 1 - UNUSED)
    assert await _deleted(world) == 0
    world.pass_time(UNUSED + 1)
    assert await _deleted(world) == 1


@fact
async def a_record_that_is_half_open_is_deleted_and_one_that_a_person_holds_is_kept(
    world: World,
) -> None:
    """A probe has passed, or a person has released it, and no job came for a trial call."""
    for name, causes in {
        "host:cooled": [Cause.COOLED],
        "host:released": [Cause.HOLD, Cause.RELEASE],
        "host:held": [Cause.HOLD],
    }.items():
        await _declare_open(world, name)
        for cause in causes:
            await _move(world, name, cause)
    for _ in range(3):
        world.pass_time(UNUSED)
        await _deleted(world)
    assert await _names(world) == ["host:held"]
    assert (await world.downstream("host:held")).circuit.held


@fact
async def a_job_that_comes_after_an_open_record_was_deleted_is_run_by_a_closed_one(
    world: World,
) -> None:
    """What a probe or a call of the old record has seen no longer counts."""
    await _declare_open(world, "host:a")
    seen = await world.downstream("host:a")
    world.pass_time(UNUSED)
    assert await _deleted(world) == 1
    assert await world.store.write_downstream(seen, now=world.now) is None
    await _declare(world, "host:a")
    assert await world.store.write_downstream(seen, now=world.now) is None
    record = await world.downstream("host:a")
    assert (record.circuit.state, record.trips) == (CircuitState.CLOSED, 0)
    assert record.version > seen.version
    claim = await world.start("job", downstream="host:a")
    assert (claim.admission, claim.permit) == (Admission.CALL, Permit(0))
    await world.finish(claim, Completed(), Verdict.SUCCESS)


@fact
async def a_record_with_jobs_is_kept_and_a_job_that_ended_counts_as_a_use(world: World) -> None:
    """A finished job is one too, for as long as it is stored."""
    for name in ("host:ended", "host:waiting"):
        await _declare(world, name)
    world.pass_time(UNUSED)
    await world.run("ended", Completed(), downstream="host:ended")
    await world.add("waiting", downstream="host:waiting")
    assert await _deleted(world) == 0
    world.pass_time(UNUSED)
    assert await _deleted(world) == 0
    await world.finish(await world.claim_one(), Completed())
    await _delete_jobs(world, "ended", "waiting")
    world.pass_time(UNUSED - 1)
    assert await _deleted(world) == 0
    world.pass_time(1)
    assert await _deleted(world) == 2


@fact
async def deleting_a_job_notes_when_it_ended_and_not_when_it_was_deleted(world: World) -> None:
    await _declare(world, "host:a")
    await world.run("job", Completed(), downstream="host:a")
    world.pass_time(UNUSED)
    await _delete_jobs(world, "job")
    assert await _deleted(world) == 1


@fact
async def the_last_use_is_noted_to_the_hour(world: World) -> None:
    """By a failure that is counted, a declaration, and a call outside of jobs."""
    for name in ("host:called", "host:declared", "host:failed"):
        await _declare(world, name, breaker=PATIENT)
    world.pass_time(HOUR / 2)
    await world.store.note_downstream_use("host:called", now=world.now)
    assert (await world.downstream("host:called")).used_at == world.now - HOUR / 2
    world.pass_time(UNUSED - HOUR)
    await world.store.note_downstream_use("host:called", now=world.now)
    await world.store.note_downstream_use("host:unknown", now=world.now)
    await _declare(world, "host:declared", breaker=PATIENT)
    claim = await world.start("job", downstream="host:failed")
    await world.finish(claim, Failed(BROKEN), Verdict.FAILURE)
    await _delete_jobs(world, "job")
    for name in ("host:called", "host:declared", "host:failed"):
        assert (await world.downstream(name)).used_at == world.now
    world.pass_time(UNUSED - 1)
    assert await _deleted(world) == 0
    assert (await world.downstream("host:failed")).circuit.streak == 1
    world.pass_time(1)
    assert await _deleted(world) == 3


@fact
async def unused_records_are_deleted_in_batches_also_behind_used_ones(world: World) -> None:
    for number in range(5):
        await _declare(world, f"host:{number}")
        world.pass_time(1)
    for number in (0, 1):
        await world.add(f"job-{number}", downstream=f"host:{number}")
    world.pass_time(UNUSED)
    assert [await _deleted(world, limit=2) for _ in range(4)] == [0, 2, 1, 0]
    assert await _names(world) == ["host:0", "host:1"]


@fact
async def a_job_without_a_record_is_claimed_and_a_new_record_limits_the_next(world: World) -> None:
    """It was created by a process that had declared the downstream before the deletion."""
    await _declare(world, "host:a", concurrency=1)
    world.pass_time(UNUSED)
    assert await _deleted(world) == 1
    claim = await world.start("first", downstream="host:a")
    assert claim.permit is None
    await world.finish(claim, Retry(0, BROKEN), Verdict.FAILURE)
    await _declare(world, "host:a", concurrency=1)
    await world.add("second", downstream="host:a")
    (claim,) = await world.claim()
    assert (ids([claim]), claim.admission) == (["first"], Admission.CALL)
    assert claim.permit is not None
    await world.finish(claim, Completed(), Verdict.SUCCESS)
    assert ids(await world.claim()) == ["second"]


async def _declare(world: World, name: str, **settings: Any) -> None:
    await world.declare(name, **{"parent": "host", **settings})


async def _declare_open(world: World, name: str, *, open_for: float = 30.0) -> None:
    breaker = BreakerPolicy(consecutive_failures=1, open_for=open_for)
    await _declare(world, name, breaker=breaker)
    claim = await world.start("job", downstream=name)
    await world.finish(claim, Failed(BROKEN), Verdict.FAILURE)
    await _delete_jobs(world, "job")


async def _move(world: World, name: str, cause: Cause) -> None:
    record = await world.downstream(name)
    assert record.settings.breaker is not None
    circuit = move(record.circuit, cause, record.settings.breaker, world.now)
    moved = with_circuit(record, circuit, world.now)
    assert await world.store.write_downstream(moved, now=world.now) is not None


async def _deleted(world: World, name: str = "host", limit: int = 500) -> int:
    # On PostgreSQL this also deletes the lanes that have no jobs left.
    await world.store.rescue(now=world.now)
    return await world.store.delete_unused_downstreams(name, limit=limit, now=world.now)


async def _names(world: World) -> list[str]:
    return [record.name for record in await world.store.downstreams()]


async def _delete_jobs(world: World, *job_ids: str) -> None:
    assert len(await world.store.delete(list(job_ids))) == len(job_ids)
