"""Schedules on PostgreSQL: remembered lanes that are gone, and the view for people."""

from dataclasses import replace
from datetime import UTC, datetime

from tests.store.postgres.conftest import jobs

from holdfast.testing.conformance.schedule_facts import TIDY


def test_a_slot_gets_its_job_though_its_remembered_lane_is_gone(bench, play):
    async def scenario(store):
        await store.enqueue(jobs(1, downstream="a"))
        await bench.execute("UPDATE holdfast.lanes SET downstream = 'b'")
        await store.create_schedules([TIDY])
        (job,) = jobs(1, downstream="a", prefix="slot")
        assert await store.write_schedule(TIDY, [job]) is not None
        assert (await store.get(job.id)).downstream == "a"
        (record,) = await store.schedules()
        assert record.version == 1

    play(scenario)


def test_people_read_schedules_with_times(bench, play):
    async def scenario(store):
        await store.create_schedules([replace(TIDY, paused_at=0.5)])
        rows = await bench.execute(
            "SELECT name, schedule, next_slot, last_slot, paused_at "
            "FROM holdfast.schedules_readable"
        )
        assert rows == [
            ("app.tidy", "every 30 s", datetime(1970, 1, 1, 0, 15, 30, tzinfo=UTC), None,
             datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
        ]  # fmt: skip

    play(scenario)
