"""Facts about workers: which live, which are dead, and what runs in their names."""

from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.model import AttemptOutcome, Completed, JobStatus
from holdfast.jobs.store_port import Leadership, Rescued
from holdfast.jobs.worker.options import new_worker_id
from holdfast.testing.conformance.world import LEASE, World, fact

NOTICED = 5.0
"""Seconds of the store's clock within which a dead worker is noticed."""
_LOOK_EVERY = 0.25
_MOST_LOOKS = 200


async def _rescue_soon(world: World) -> Rescued:
    """Rescue again and again, for five seconds of the store's clock, until something is found."""
    for _ in range(int(NOTICED / _LOOK_EVERY)):
        rescued = await world.store.rescue(now=world.now)
        if rescued != Rescued():
            return rescued
        world.pass_time(_LOOK_EVERY)
    return Rescued()


@fact
async def a_killed_workers_jobs_run_again_long_before_their_leases_expire(world: World) -> None:
    """Within five seconds; the attempt stays counted and its token is fenced."""
    await world.tables.kill_worker("dead")
    zombie = await world.start("a", worker="dead")
    assert await _rescue_soon(world) == Rescued(requeued=("a",))
    job = await world.job("a")
    assert (job.status, job.attempt_count) == (JobStatus.QUEUED, 1)
    (attempt,) = await world.store.attempts("a")
    assert attempt.outcome is AttemptOutcome.LEASE_LOST
    heir = await world.claim_one("heir")
    assert (await world.finish(zombie, Completed())).refused
    assert not (await world.finish(heir, Completed())).refused


@fact
async def a_living_workers_jobs_are_left_to_its_lease(world: World) -> None:
    """Registered or not; a worker that lives and sends no heartbeat loses its jobs in the end."""
    heartbeats = world.store.heartbeats()
    await heartbeats.register("registered")
    await world.start("a", worker="registered")
    await world.start("b", worker="unknown")
    assert await _rescue_soon(world) == Rescued()
    world.pass_time(LEASE - NOTICED - 1)
    assert await world.store.rescue(now=world.now) == Rescued()
    world.pass_time(2)
    assert set((await world.store.rescue(now=world.now)).requeued) == {"a", "b"}
    await heartbeats.close()


@fact
async def a_worker_that_registers_again_lives(world: World) -> None:
    """A worker whose connection was lost is not dead, if it is back in time."""
    await world.tables.kill_worker("worker-1")
    await world.start("a")
    heartbeats = (await world.open_second()).heartbeats()
    for _ in range(2):
        await heartbeats.register("worker-1")
    assert await _rescue_soon(world) == Rescued()
    await heartbeats.close()


@fact
async def a_worker_that_starts_again_does_not_hide_that_it_was_killed(world: World) -> None:
    """Also if a person gave it its name: the jobs of the earlier start run again in seconds."""
    killed, again = new_worker_id("steady"), new_worker_id("steady")
    await world.tables.kill_worker(killed)
    await world.start("lost", worker=killed)
    heartbeats = world.store.heartbeats()
    await heartbeats.register(again)
    await world.start("kept", worker=again)
    assert await world.store.lead("maintenance", killed, 60, now=world.now) is not None
    assert await _rescue_soon(world) == Rescued(requeued=("lost",))
    assert await world.store.lead("maintenance", again, 60, now=world.now) is not None
    await heartbeats.close()


@fact
async def a_rescue_of_dead_workers_has_a_limit(world: World) -> None:
    """The rest follows at the next calls; then the worker is forgotten."""
    await world.tables.kill_worker("dead")
    for name in ("a", "b", "c"):
        await world.add(name)
    await world.claim(3, "dead")
    found: list[str] = []
    for _ in range(_MOST_LOOKS):
        rescued = await world.store.rescue(limit=2, now=world.now)
        assert len(rescued.requeued) <= 2
        found += rescued.requeued
        if len(found) == 3:
            break
        world.pass_time(_LOOK_EVERY)
    assert sorted(found) == ["a", "b", "c"]


@fact
async def a_killed_leader_is_replaced_long_before_its_leadership_expires(world: World) -> None:
    """Within five seconds; a living one is not."""
    await world.tables.kill_worker("dead")
    store = world.store
    assert await store.lead("maintenance", "dead", 60, now=world.now) is not None
    heirs: Leadership | None = None
    for _ in range(int(NOTICED / _LOOK_EVERY)):
        heirs = await store.lead("maintenance", "heir", 60, now=world.now)
        if heirs is not None:
            break
        world.pass_time(_LOOK_EVERY)
    assert heirs is not None
    assert heirs.term == 2
    heartbeats = store.heartbeats()
    await heartbeats.register("heir")
    for _ in range(int(NOTICED / _LOOK_EVERY)):
        assert await store.lead("maintenance", "another", 60, now=world.now) is None
        world.pass_time(_LOOK_EVERY)
    await heartbeats.close()


@fact
async def a_worker_is_told_which_of_its_jobs_are_to_be_cancelled(world: World) -> None:
    """Only those that run in its name."""
    heartbeats = world.store.heartbeats()
    await heartbeats.register("worker-1")
    mine, _ = await world.start("mine"), await world.start("other")
    await world.start("theirs", worker="worker-2")
    assert await heartbeats.requests("worker-1") == WorkerRequests()
    for name in ("mine", "theirs"):
        await world.store.cancel(name, now=world.now)
    assert await heartbeats.requests("worker-1") == WorkerRequests(cancel=("mine",))
    await world.finish(mine, Completed())
    assert await heartbeats.requests("worker-1") == WorkerRequests()
    await heartbeats.close()


@fact
async def a_worker_can_ask_which_leases_are_in_its_name(world: World) -> None:
    """Those of running jobs, with their tokens."""
    first, second = await world.start("a"), await world.start("b")
    await world.start("c", worker="worker-2")
    assert set(await world.store.leases("worker-1")) == {first.lease, second.lease}
    await world.finish(first, Completed())
    assert await world.store.leases("worker-1") == (second.lease,)
    assert await world.store.leases("nobody") == ()
