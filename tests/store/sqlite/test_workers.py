"""Workers and their leases when the wall clock jumps."""

import asyncio
from dataclasses import replace

from tests.support.waiting import until
from tests.support.workers import QUICK, EventLog

from holdfast.clock import SystemClock
from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import JobClaimed, ServiceRan
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest, Rescued
from holdfast.jobs.worker.worker import Worker
from holdfast.store.sqlite.store import SQLiteStore

JUMP = 400.0


class JumpingClock(SystemClock):
    """A clock whose wall time a person sets, or that goes on while a laptop sleeps."""

    ahead = 0.0

    def wall(self):
        return SystemClock.wall() + self.ahead


async def claimed(store, lease_seconds=300.0, worker="w"):
    await store.enqueue([NewJob("job", "work")])
    request = ClaimRequest(1, ("default",), {"work": None}, lease_seconds)
    (claim,) = (await store.tick(worker, (), request)).claims
    return claim


def play(tmp_path, scenario):
    async def main():
        clock = JumpingClock()
        async with SQLiteStore(tmp_path / "jobs.db", clock=clock) as store:
            await scenario(store, clock)

    asyncio.run(main())


def test_a_jump_of_the_clock_does_not_end_a_living_workers_lease(tmp_path):
    async def scenario(store, clock):
        heartbeats = store.heartbeats()
        await heartbeats.register("w")
        claim = await claimed(store)
        clock.ahead = JUMP
        assert await store.rescue() == Rescued()
        assert (await heartbeats.extend([claim.lease], 300.0)).lost == ()
        clock.ahead = 2 * JUMP
        assert await store.rescue() == Rescued()

    play(tmp_path, scenario)


def test_a_lease_without_heartbeats_expires_despite_a_jump_of_the_clock(tmp_path):
    """As that of a process that was stopped."""

    async def scenario(store, clock):
        await store.heartbeats().register("w")
        await claimed(store, lease_seconds=0.5)
        clock.ahead = JUMP
        rescued = await until(lambda: rescued_one(store))
        assert rescued.requeued == ("job",)

    play(tmp_path, scenario)


async def rescued_one(store):
    rescued = await store.rescue()
    return rescued if rescued != Rescued() else None


def test_a_lease_of_an_unregistered_worker_ends_by_the_wall_clock(tmp_path):
    async def scenario(store, clock):
        await claimed(store)
        clock.ahead = JUMP
        assert (await store.rescue()).requeued == ("job",)

    play(tmp_path, scenario)


def test_a_running_job_survives_a_jump_of_the_clock(tmp_path):
    app, told, let_go = App("a"), EventLog(), asyncio.Event()

    @app.job()
    async def work(ctx) -> int:
        await let_go.wait()
        return ctx.attempt

    async def scenario(store, clock):
        options = replace(QUICK, maintenance=MaintenanceOptions(rescue_every=0.02))
        kinds = {kind.name: kind for kind in app.kinds}
        worker = Worker(store, kinds, options, clock=clock, listeners=[told])
        await store.enqueue([NewJob("job", work.kind.name)])
        running = asyncio.create_task(worker.run())
        await told.wait(JobClaimed)
        clock.ahead = JUMP
        rounds = len([event for event in told.of(ServiceRan) if event.name == "rescue"])
        await told.wait(ServiceRan, lambda event: event.name == "rescue", count=rounds + 3)
        let_go.set()
        await until(lambda: store_has_result(store))
        worker.stop()
        await running
        assert (await store.get("job")).result == "1"

    async def store_has_result(store):
        return (await store.get("job")).result is not None

    play(tmp_path, scenario)
