"""Facts about the schedules of periodic jobs."""

import asyncio
from dataclasses import replace

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ScheduleRecord
from holdfast.testing.conformance.world import World, fact, ids

TIDY = ScheduleRecord(
    "app.tidy", "every 30 s", "skip", True, handled_until=900.0, declared_at=800.0, next_slot=930.0
)


async def stored(world: World, name: str = TIDY.name) -> ScheduleRecord:
    (found,) = [each for each in await world.store.schedules() if each.name == name]
    return found


@fact
async def a_schedule_is_created_once_and_read_back(world: World) -> None:
    other = replace(TIDY, name="app.Other", overlap=False, missed="once")
    await world.store.create_schedules([TIDY, other])
    await world.store.create_schedules([replace(TIDY, schedule="every 60 s"), TIDY])
    assert await world.store.schedules() == (other, TIDY)


@fact
async def every_field_of_a_schedule_is_written(world: World) -> None:
    await world.store.create_schedules([TIDY])
    changed = ScheduleRecord(
        TIDY.name, "0 3 * * * Europe/Berlin", "all", False, 1.5, 2.5, 3.5, 4.5, 5.5, "job", 6.5, 7.5
    )
    written = await world.store.write_schedule(changed)
    assert written == await stored(world) == replace(changed, version=1)
    cleared = replace(TIDY, version=1)
    assert await world.store.write_schedule(cleared) == replace(cleared, version=2)
    assert await stored(world) == replace(TIDY, version=2)


@fact
async def a_slot_and_its_job_are_written_together(world: World) -> None:
    await world.store.create_schedules([TIDY])
    moved = replace(TIDY, handled_until=930.0, last_slot=930.0, last_job="slot-930")
    job = NewJob("slot-930", "work", meta='{"slot": "x"}')
    assert await world.store.write_schedule(moved, [job], now=world.now) is not None
    assert (await stored(world)).handled_until == 930.0
    (claim,) = await world.claim()
    assert (claim.job_id, claim.meta, claim.created_at) == ("slot-930", '{"slot": "x"}', world.now)
    assert (await world.lane()).processing == 1


@fact
async def a_write_from_an_old_version_is_refused_and_creates_no_job(world: World) -> None:
    await world.store.create_schedules([TIDY])
    second = await world.open_second()
    assert await second.write_schedule(replace(TIDY, paused_at=1.0)) is not None
    late = await world.store.write_schedule(TIDY, [NewJob("late", "work")], now=world.now)
    assert late is None
    assert (await stored(world)).paused_at == 1.0
    assert await world.claim() == ()
    unknown = replace(TIDY, name="app.unknown")
    assert await world.store.write_schedule(unknown, [NewJob("late", "work")]) is None
    assert await world.claim() == ()


@fact
async def of_many_leaders_that_write_a_slot_one_succeeds(world: World) -> None:
    await world.store.create_schedules([TIDY])
    second = await world.open_second()
    for slot in range(5):
        record = await stored(world)
        written = await asyncio.gather(
            *(
                store.write_schedule(
                    replace(record, handled_until=float(slot)),
                    [NewJob(f"{slot}-{leader}", "work")],
                    now=world.now,
                )
                for leader, store in enumerate([world.store, second] * 3)
            )
        )
        assert len([each for each in written if each is not None]) == 1
    assert len(await world.claim(100)) == 5


@fact
async def a_slot_whose_job_exists_gets_no_second_one(world: World) -> None:
    """The schedule moves on all the same: its record was lost, or the clock was set back."""
    await world.run("slot-930")
    await world.store.create_schedules([TIDY])
    moved = replace(TIDY, handled_until=930.0)
    jobs = [NewJob("slot-930", "work"), NewJob("slot-960", "work")]
    assert await world.store.write_schedule(moved, jobs, now=world.now) is not None
    assert ids(await world.claim()) == ["slot-960"]
    assert (await stored(world)).handled_until == 930.0
