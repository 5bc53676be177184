"""A lease lasts for its length, however the wall clock jumps meanwhile."""

import asyncio
from dataclasses import replace

import pytest
from tests.support.waiting import until
from tests.support.workers import QUICK, EventLog

from holdfast.clock import SystemClock
from holdfast.jobs.declare.app import App
from holdfast.jobs.job_events import JobClaimed, ServiceRan
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest, Rescued
from holdfast.jobs.worker.worker import Worker
from holdfast.outbox.handling import StartState
from holdfast.outbox.model import NewMessage
from holdfast.store.sqlite import clock_jumps
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock

LEASE = 300.0
JUMP = 400.0
HOUR = 3600.0


class World:
    """A store, its clock, and a worker with two jobs: "other" runs from the start."""

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock
        self.heartbeats = store.heartbeats()
        self.leases = {}
        self.begun = {}

    async def start(self, name):
        """Enqueue and claim a job."""
        await self.store.enqueue([NewJob(name, "work")])
        request = ClaimRequest(1, ("default",), {"work": None}, LEASE)
        (claim,) = (await self.store.tick("w", (), request)).claims
        self.leases[name] = claim.lease
        self.begun[name] = self.clock.monotonic()

    async def step(self, step):
        """Do one step of a case."""
        match step.split():
            case ["claim"]:
                await self.start("job")
            case ["wait", seconds]:
                self.clock.advance(float(seconds))
            case ["jump", seconds]:
                self.clock.step_wall(float(seconds))
            case ["beat", name]:
                leases = [self.leases[name]]
                assert (await self.heartbeats.extend(leases, LEASE)).lost == ()
                self.begun[name] = self.clock.monotonic()
            case ["rescue", "nothing"]:
                assert await self.store.rescue() == Rescued()

    async def ends_on_time(self, name):
        """Check that the lease lasts for its length of monotonic time, and no longer."""
        ends_at = self.begun[name] + LEASE
        self.clock.advance_to(ends_at - 1)
        assert name not in (await self.store.rescue()).requeued
        self.clock.advance_to(ends_at + 1)
        assert name in (await self.store.rescue()).requeued


def play(tmp_path, clock, scenario):
    async def main():
        async with SQLiteStore(tmp_path / "jobs.db", clock=clock) as store:
            await scenario(store)

    asyncio.run(main())


CASES = {
    "no jump": ["claim"],
    "forward": ["claim", f"jump {JUMP}", "rescue nothing"],
    "back": ["claim", f"jump {-JUMP}", "rescue nothing"],
    "forward and back": ["claim", f"jump {JUMP}", "rescue nothing", f"jump {-JUMP}"],
    "forward twice": ["claim", f"jump {JUMP}", "rescue nothing", f"jump {JUMP}", "rescue nothing"],
    "forward, extended": ["claim", f"jump {JUMP}", "beat job", "rescue nothing"],
    "back, extended": ["claim", f"jump {-JUMP}", "beat job", "rescue nothing"],
    "forward between claim and a heartbeat without it": [
        "claim", f"jump {JUMP}", "beat other", "rescue nothing"
    ],
    "back between claim and a heartbeat without it": [
        "claim", f"jump {-JUMP}", "beat other", "rescue nothing"
    ],
    "forward before the claim": [f"jump {JUMP}", "claim"],
    "back before the claim": [f"jump {-JUMP}", "claim"],
    "forward before and after the claim": [f"jump {JUMP}", "claim", f"jump {JUMP}"],
    "forward, later extended, then stopped": [
        "claim", f"jump {HOUR}", "wait 30", "beat job", "wait 30", "beat job"
    ],
    "back by an hour, then stopped": ["claim", "wait 30", "beat job", f"jump {-HOUR}"],
    "late in the lease": ["claim", "wait 290", f"jump {JUMP}", "rescue nothing"],
    "many small steps": ["claim", *["jump 0.3", "wait 1", "beat other"] * 40],
}  # fmt: skip


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("steps", CASES.values(), ids=CASES)
def test_a_lease_lasts_for_its_length(tmp_path, steps, registered):
    """Also that of a process which is stopped: no heartbeat follows the last step."""
    clock = VirtualClock()

    async def scenario(store):
        world = World(store, clock)
        if registered:
            await world.heartbeats.register("w")
        await world.start("other")
        for step in steps:
            await world.step(step)
        await world.ends_on_time("job")

    play(tmp_path, clock, scenario)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_leadership_lasts_for_its_length(tmp_path, jump):
    """A stopped leader is replaced; a running one stays."""
    clock = VirtualClock()

    async def scenario(store):
        await store.lead("maintenance", "one", 30.0)
        clock.step_wall(jump)
        clock.advance(29.0)
        assert await store.lead("maintenance", "two", 30.0) is None
        clock.advance(2.0)
        assert await store.lead("maintenance", "two", 30.0) is not None

    play(tmp_path, clock, scenario)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_request_is_in_the_hands_of_one_consumer_for_the_length_of_its_lease(tmp_path, jump):
    clock = VirtualClock()

    async def scenario(store):
        await store.outbox.begin("grading", "r1", 0, 30.0)
        clock.step_wall(jump)
        clock.advance(29.0)
        running = await store.outbox.begin("grading", "r1", 0, 30.0)
        assert (running.state, running.wait) == (StartState.RUNNING, pytest.approx(1.0))
        clock.advance(2.0)
        assert (await store.outbox.begin("grading", "r1", 0, 30.0)).claim is not None

    play(tmp_path, clock, scenario)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_message_is_in_the_hands_of_one_relay_for_the_length_of_its_lease(tmp_path, jump):
    clock = VirtualClock()

    async def scenario(store):
        await store.outbox.add([NewMessage("m1", "order-1", "order.placed", "{}")])
        assert len((await store.outbox.tick((), 10, 20.0)).claims) == 1
        clock.step_wall(jump)
        clock.advance(19.0)
        await store.outbox.delete_published(60.0)  # as every relay does at intervals
        assert (await store.outbox.tick((), 10, 20.0)).claims == ()
        clock.advance(2.0)
        assert len((await store.outbox.tick((), 10, 20.0)).claims) == 1

    play(tmp_path, clock, scenario)


def test_a_resigned_leadership_is_free_after_a_jump(tmp_path):
    clock = VirtualClock()

    async def scenario(store):
        await store.lead("maintenance", "one", 30.0)
        await store.resign("maintenance", "one")
        clock.step_wall(HOUR)
        assert not await store.resign("maintenance", "one")
        assert await store.lead("maintenance", "two", 30.0) is not None

    play(tmp_path, clock, scenario)


def test_after_a_boot_of_the_machine_leases_end_by_the_wall_clock(tmp_path, monkeypatch):
    """The monotonic clock begins anew, so its difference to the wall clock says nothing."""
    clock = VirtualClock()

    async def scenario(store):
        world = World(store, clock)
        await world.start("job")
        monkeypatch.setattr(clock_jumps, "boot_id", lambda: "another")
        clock.step_wall(JUMP)
        assert (await store.rescue()).requeued == ("job",)

    play(tmp_path, clock, scenario)


def test_where_the_system_does_not_tell_its_boot_leases_end_by_the_wall_clock(
    tmp_path, monkeypatch
):
    clock = VirtualClock()
    monkeypatch.setattr(clock_jumps, "boot_id", lambda: None)

    async def scenario(store):
        world = World(store, clock)
        await world.start("job")
        clock.step_wall(JUMP)
        assert (await store.rescue()).requeued == ("job",)

    play(tmp_path, clock, scenario)


class JumpingClock(SystemClock):
    """A clock whose wall time a person sets, or that goes on while a laptop sleeps."""

    ahead = 0.0

    def wall(self):
        return SystemClock.wall() + self.ahead


def test_a_running_job_survives_a_jump_of_the_clock(tmp_path):
    app, told, let_go = App("a"), EventLog(), asyncio.Event()
    clock = JumpingClock()

    @app.job()
    async def work(ctx) -> int:
        await let_go.wait()
        return ctx.attempt

    async def scenario(store):
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

    play(tmp_path, clock, scenario)
