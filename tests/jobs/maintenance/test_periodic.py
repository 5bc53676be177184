"""The service on a real store and a virtual clock: one job per slot, whoever runs it."""

import asyncio
import json
import logging
from dataclasses import replace

import pytest

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.maintenance.periodic import PeriodicJobs, slot_job_id
from holdfast.jobs.model import Completed, Finished, JobStatus
from holdfast.jobs.store_port import ClaimRequest, StoreUnavailable
from holdfast.jobs.views import JobFilter
from holdfast.resilience.policy import RetryPolicy
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock

START = 1_800_000_000.0
"""A multiple of ten, in epoch seconds."""


def app_of(name="tidy", **options):
    app = App("a")

    @app.periodic(name=name, **{"every": 10, **options})
    async def tidy(ctx): ...

    return app


class World:
    """A store on a virtual clock, with any number of leaders."""

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock

    def leader(self, app):
        return PeriodicJobs(self.store, app.kinds, clock=self.clock)

    async def slots(self, kind="a.tidy"):
        """Return the slots of all jobs, in seconds after the start, oldest first."""
        page = await self.store.list_jobs(JobFilter(kinds=(kind,)), limit=5000)
        known = {slot_job_id(kind, START + n): n for n in range(0, 90_000, 5)}
        return sorted(known[job.id] for job in page.jobs)

    async def change(self, **fields):
        (record,) = await self.store.schedules()
        assert await self.store.write_schedule(replace(record, **fields)) is not None

    async def finish_all(self, kind="a.tidy"):
        request = ClaimRequest(100, ("default",), {kind: None})
        claims = (await self.store.tick("w", (), request)).claims
        await self.store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])


@pytest.fixture
def run(tmp_path):
    """Run a test's coroutine with a world."""

    def run(test):
        async def go():
            clock = VirtualClock(start_wall=START)
            async with SQLiteStore(tmp_path / "jobs.db", clock=clock) as store:
                await test(World(store, clock))

        asyncio.run(go())

    return run


def test_each_slot_gets_one_job_and_the_leader_sleeps_until_the_next(run):
    async def test(world):
        leader = world.leader(app_of())
        assert await leader.round() == 0
        for _ in range(5):
            # It wakes up in between too: someone may have resumed a schedule.
            assert 0 < leader.interval <= 5.1
            world.clock.advance(leader.interval)
            await leader.round()
        assert await world.slots() == [10, 20]

    run(test)


def test_the_sleep_ends_with_the_next_slot(run):
    async def test(world):
        leader = world.leader(app_of())
        await leader.round()
        world.clock.advance(7.5)
        await leader.round()
        assert leader.interval == pytest.approx(2.5, abs=0.02)

    run(test)


def test_the_job_is_what_the_kind_declares(run):
    async def test(world):
        app = app_of(
            retry=RetryPolicy(max_attempts=7), queue="night", deadline=30.0,
            downstream=Downstream("gw"),
        )  # fmt: skip
        leader = world.leader(app)
        await leader.round()
        world.clock.advance(11)
        assert await leader.round() == 1
        job = await world.store.get("a.tidy:2027-01-15T08:00:10Z")
        assert (job.kind, job.queue, job.downstream) == ("a.tidy", "night", "gw")
        assert (job.max_attempts, job.deadline_at) == (7, START + 41)
        assert json.loads(job.meta) == {"slot": "2027-01-15T08:00:10+00:00"}
        (record,) = await world.store.schedules()
        assert (record.last_slot, record.last_job) == (START + 10, job.id)
        assert record.next_slot == START + 20

    run(test)


def test_any_number_of_leaders_create_one_job_for_a_slot(run):
    async def test(world):
        leaders = [world.leader(app_of()) for _ in range(4)]
        for _ in range(12):
            await asyncio.gather(*(leader.round() for leader in leaders))
            world.clock.advance(5)
        assert await world.slots() == [10, 20, 30, 40, 50]

    run(test)


def test_a_leader_that_slept_through_a_takeover_repeats_nothing(run):
    async def test(world):
        first, second = world.leader(app_of()), world.leader(app_of())
        await first.round()
        world.clock.advance(25)
        await second.round()
        await first.round()
        assert await world.slots() == [10, 20]

    run(test)


@pytest.mark.parametrize(
    "missed, expected", [("skip", [3610]), ("once", [3600, 3610]), ("all", [*range(10, 3611, 10)])]
)
def test_after_an_outage_missed_slots_follow_the_declaration(run, missed, expected, caplog):
    async def test(world):
        await world.leader(app_of(missed=missed)).round()
        world.clock.advance(3605)
        leader = world.leader(app_of(missed=missed))
        await leader.round()
        world.clock.advance(6)
        await leader.round()
        assert await world.slots() == expected

    with caplog.at_level(logging.WARNING, "holdfast.maintenance"):
        run(test)
    said = [line for line in caplog.messages if "were missed" in line]
    assert len(said) == (0 if missed == "all" else 1)


def test_catching_up_is_bounded(run, caplog):
    async def test(world):
        await world.leader(app_of(missed="all")).round()
        world.clock.advance(86400)
        await world.leader(app_of(missed="all")).round()
        slots = await world.slots()
        assert (len(slots), slots[0], slots[-1]) == (1000, 86400 - 9990, 86400)

    run(test)
    assert "slots from 2027-01-15T08:00:10Z on were missed" in caplog.text


def test_a_pause_survives_a_new_leader_and_ends_with_the_resumption(run):
    async def test(world):
        await world.leader(app_of(missed="once")).round()
        await world.change(paused_at=START)
        leader = world.leader(app_of(missed="once"))
        world.clock.advance(35)
        assert await leader.round() == 0
        await world.change(paused_at=None, resumed_at=START + 35)
        world.clock.advance(5)
        assert await leader.round() == 2
        assert await world.slots() == [30, 40]

    run(test)


def test_a_pause_that_comes_between_reading_and_writing_wins(run):
    async def test(world):
        leader = world.leader(app_of())
        await leader.round()
        world.clock.advance(11)
        ping = world.store.ping

        async def pause_meanwhile():
            world.store.ping = ping
            await world.change(paused_at=START + 11)
            return await ping()

        world.store.ping = pause_meanwhile
        assert await leader.round() == 0
        assert await world.slots() == []

    run(test)


def test_without_overlap_a_slot_is_left_out_while_the_last_job_is_unfinished(run):
    async def test(world):
        leader = world.leader(app_of(overlap=False))
        for _ in range(4):
            await leader.round()
            world.clock.advance(10)
        assert await world.slots() == [10]
        await world.finish_all()
        await leader.round()
        assert await world.slots() == [10, 40]

    run(test)


def test_with_overlap_slots_do_not_wait_for_each_other(run):
    async def test(world):
        leader = world.leader(app_of())
        for _ in range(4):
            await leader.round()
            world.clock.advance(10)
        assert await world.slots() == [10, 20, 30]

    run(test)


def test_in_a_rolling_deploy_the_newer_declaration_counts_and_no_slot_comes_twice(run):
    async def test(world):
        old = world.leader(app_of(every=10))
        await old.round()
        world.clock.advance(21)
        await old.round()
        new = world.leader(app_of(every=15))
        for _ in range(12):
            await old.round()
            await new.round()
            world.clock.advance(5)
        # Until the second 21 by the old declaration, then by the new one.
        assert await world.slots() == [10, 20, 30, 45, 60, 75]
        (record,) = await world.store.schedules()
        assert record.schedule == "every 15 s"

    run(test)


def test_when_the_newer_workers_are_gone_the_older_ones_continue(run):
    async def test(world):
        old = world.leader(app_of(every=10))
        await old.round()
        world.clock.advance(1)
        await world.leader(app_of(every=3600)).round()
        for _ in range(20):
            world.clock.advance(5)
            await old.round()
        assert await world.slots() == [70, 80, 90, 100]

    run(test)


def test_a_schedule_that_is_no_longer_declared_stops_and_stays(run):
    async def test(world):
        await world.leader(app_of()).round()
        leader = world.leader(app_of(name="other"))
        for _ in range(10):
            world.clock.advance(10)
            await leader.round()
        assert await world.slots() == []
        other, tidy = await world.store.schedules()
        assert (other.name, tidy.name) == ("a.other", "a.tidy")
        assert tidy.seen_at == START
        assert other.seen_at > START + 80

    run(test)


def test_a_declared_schedule_is_marked_as_seen_also_between_distant_slots(run):
    async def test(world):
        leader = world.leader(app_of(every=86400))
        for _ in range(20):
            await leader.round()
            world.clock.advance(leader.interval)
        (record,) = await world.store.schedules()
        assert world.clock.wall() - record.seen_at < 25
        assert record.version < 10  # not a write for every round

    run(test)


def test_a_clock_that_jumps_back_a_little_repeats_no_slot(run):
    async def test(world):
        leader = world.leader(app_of())
        for _ in range(30):
            await leader.round()
            world.clock.advance(5)
            if round(world.clock.monotonic()) == 55:
                world.clock.step_wall(-30)
        assert await world.slots() == [*range(10, 111, 10)]

    run(test)


def test_a_clock_that_was_a_day_ahead_does_not_stop_the_schedule(run):
    """Ids keep slots apart that the record has followed the clock back to."""

    async def test(world):
        leader = world.leader(app_of())
        await leader.round()
        world.clock.advance(21)
        await leader.round()
        world.clock.step_wall(86400)
        await leader.round()
        world.clock.step_wall(-86410)
        for _ in range(6):
            await leader.round()
            world.clock.advance(5)
        assert await world.slots() == [10, 20, 30]

    run(test)


def test_a_clock_that_jumps_ahead_costs_the_missed_slots_only(run):
    async def test(world):
        leader = world.leader(app_of())
        await leader.round()
        world.clock.step_wall(7205)
        await leader.round()
        world.clock.advance(5)
        await leader.round()
        assert await world.slots() == [7210]

    run(test)


def test_an_app_without_periodic_jobs_costs_no_statement():
    app = App("a")

    @app.job()
    async def plain(ctx): ...

    leader = PeriodicJobs(None, app.kinds, clock=VirtualClock())
    assert asyncio.run(leader.round()) == 0
    assert leader.interval == 3600.0


def test_a_failed_round_does_not_come_again_at_once(run):
    async def test(world):
        leader = world.leader(app_of())
        await leader.round()
        world.clock.advance(9.999)
        await leader.round()

        async def fail():
            raise StoreUnavailable("gone")

        world.store.ping = fail
        with pytest.raises(StoreUnavailable):
            await leader.round()
        assert leader.interval == 5.0

    run(test)


def test_a_job_enqueued_by_the_schedule_can_be_claimed(run):
    async def test(world):
        leader = world.leader(app_of())
        await leader.round()
        world.clock.advance(10)
        await leader.round()
        await world.finish_all()
        (record,) = await world.store.schedules()
        assert (await world.store.get(record.last_job)).status is JobStatus.COMPLETE

    run(test)
