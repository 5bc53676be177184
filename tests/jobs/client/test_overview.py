"""Figures about all jobs."""

import asyncio

import pytest

from holdfast.jobs.client.overview import SAMPLE, latency_of, read_overview
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.maintenance.counter_marks import CounterMarks
from holdfast.jobs.model import Completed, Failed, JobStatus, Retry
from holdfast.jobs.operations_port import CounterMark, FinishedJob
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock
from holdfast.testing.conformance.world import BROKEN, World

HOUR = 3600.0


def run(tmp_path, story):
    """Run `story` on a new store whose clock follows that of its world."""

    async def live():
        clock = VirtualClock()
        async with SQLiteStore(tmp_path / "work.db", clock=clock) as store:
            world = World(store, None, None, now=clock.wall())
            await story(world, clock)

    asyncio.run(live())


def finished(seconds, retried=0.0):
    times = 0.0, 10.0, 10.0 + retried, 10.0 + seconds
    return FinishedJob("work", None, JobStatus.COMPLETE, 1, *times)


def test_success_and_overhead_count_every_attempt(tmp_path):
    async def story(world, _):
        await world.run("a")
        await world.run("b", Failed(BROKEN))
        await world.finish(await world.start("c"), Retry(0.0, BROKEN))
        await world.finish(await world.claim_one(), Completed())
        await world.add("d")
        found = await read_overview(world.store)
        total = found.total
        assert (total.complete, total.failed, total.first_try, total.attempts) == (2, 1, 1, 4)
        assert total.success_share == pytest.approx(2 / 3)
        assert total.first_try_share == pytest.approx(1 / 3)
        assert total.retry_overhead == pytest.approx(100 / 3)
        assert found.retries == ((1, 2), (2, 1))
        assert found.last_hour is found.last_day is None
        (kind,) = found.kinds
        assert (kind.kind, kind.total, kind.retries) == ("work", total, found.retries)
        (queue,) = found.queues
        assert (queue.name, queue.ready, queue.oldest_ready_at) == ("default", 1, world.now)

    run(tmp_path, story)


def test_without_jobs_there_are_no_shares(tmp_path):
    async def story(world, _):
        found = await read_overview(world.store)
        assert (found.total.finished, found.total.success_share) == (0, None)
        assert found.total.first_try_share is found.total.retry_overhead is found.latency is None
        assert (found.queues, found.kinds, found.history) == ((), (), ())
        assert found.trips_by_hour == (0,) * 24

    run(tmp_path, story)


def test_the_last_hour_begins_at_the_nearest_mark(tmp_path):
    async def story(world, clock):
        marks = CounterMarks(world.store, interval=300.0)
        for number in range(30):
            await world.run(f"job-{number}", Failed(BROKEN) if number == 29 else None)
            assert await marks.round() == 1
            assert await marks.round() == 0
            clock.sleep(300)
            world.pass_time(300)
        found = await read_overview(world.store)
        assert (found.total.complete, found.total.failed) == (29, 1)
        hour = found.last_hour
        assert (hour.complete, hour.failed, hour.since) == (10, 1, found.at - HOUR)
        assert found.last_day.finished == 29
        assert found.kinds[0].last_hour == hour
        (first, second) = found.history
        assert first.outcomes.finished == second.outcomes.finished == 12

    run(tmp_path, story)


def test_only_the_marks_that_are_needed_are_decoded(tmp_path, monkeypatch):
    async def story(world, _):
        began = world.now - 299 * 300
        for number in range(300):
            done = (("work", "complete", 1, number),)
            await world.store.add_mark(CounterMark(began + number * 300, done), keep_from=0.0)
        read, decoded = world.store.marks, []

        async def watched(*args, **options):
            found = await read(*args, **options)
            decoded.extend(found)
            return found

        monkeypatch.setattr(world.store, "marks", watched)
        found = await read_overview(world.store)
        assert (found.last_hour.since, found.last_day.since) == (
            world.now - HOUR,
            world.now - 24 * HOUR,
        )
        assert [point.outcomes.complete for point in found.history] == [12] * 24
        assert len(decoded) <= 28

    run(tmp_path, story)


def test_times_with_and_without_retries_are_of_the_same_jobs():
    sample = [finished(1.0)] * 90 + [finished(30.0, retried=29.0)] * 10

    found = latency_of(sample)

    assert found.jobs == 100
    assert found.with_retries.p50 == found.without_retries.p50 == 1.0
    assert (found.with_retries.p95, found.with_retries.p99) == (30.0, 30.0)
    assert (found.without_retries.p95, found.without_retries.p99) == (1.0, 1.0)
    assert (found.total.p99, found.since) == (40.0, 11.0)


def test_times_are_of_a_bounded_number_of_the_newest_jobs(tmp_path):
    async def story(world, _):
        for number in range(3):
            await world.run(f"job-{number}")
        assert len(await world.store.finished_jobs(limit=2)) == 2
        assert (await read_overview(world.store)).latency.jobs == 3 <= SAMPLE

    run(tmp_path, story)


def test_trips_are_counted_by_the_hour(tmp_path):
    async def story(world, clock):
        await world.open_gateway(waiting=2)
        clock.sleep(2.5 * HOUR)
        found = await read_overview(world.store)
        assert found.trips_by_hour == (*(0,) * 21, 1, 0, 0)
        (gateway,) = found.downstreams
        assert (gateway.record.trips, gateway.trips_last_hour, gateway.ready) == (1, 0, 2)

    run(tmp_path, story)


def test_details_say_since_when_and_how_long_a_downstream_is_open(tmp_path):
    async def story(world, clock):
        await world.open_gateway(waiting=2)
        opened = world.now
        clock.sleep(10)
        (gateway,) = (await read_overview(world.store)).downstreams
        assert (gateway.name, gateway.state, gateway.holds) == ("gateway", "OPEN", True)
        assert (gateway.since, gateway.open_seconds) == (opened, 10.0)
        assert (gateway.next_trial_at, gateway.oldest_ready_at) == (opened + 30, opened)
        assert (gateway.trips_last_hour, gateway.drain_seconds) == (1, None)
        clock.sleep(30)
        world.pass_time(40)
        for claim in await world.claim(2):
            await world.finish(claim, Completed(), Verdict.SUCCESS)
        clock.sleep(5)
        (gateway,) = (await read_overview(world.store)).downstreams
        assert (gateway.state, gateway.holds, gateway.since) == ("CLOSED", False, world.now)
        assert (gateway.open_seconds, gateway.next_trial_at) == (40.0, None)

    run(tmp_path, story)


def test_the_drain_estimate_is_the_pace_of_the_newest_jobs(tmp_path):
    async def story(world, _):
        await world.declare()
        for number in range(6):
            claim = await world.start(f"job-{number}", downstream="gateway")
            world.pass_time(2)
            await world.finish(claim, Completed(), Verdict.SUCCESS)
        for number in range(10):
            await world.add(f"waiting-{number}", downstream="gateway")
        (gateway,) = (await read_overview(world.store)).downstreams
        assert (gateway.ready, gateway.drain_seconds) == (10, 20.0)

    run(tmp_path, story)
