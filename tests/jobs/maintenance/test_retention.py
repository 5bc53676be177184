"""Retention: finished jobs and their files are deleted by the rules of their kind."""

import asyncio

from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.retention import FOREVER, Retention
from holdfast.jobs.job_events import JobsDeleted
from holdfast.jobs.maintenance.retention import RetentionService


def jobs_with(retention):
    app = App("a")

    @app.job(retention=retention)
    async def work(ctx): ...

    return app, work


def service(it, batch=500):
    return RetentionService(
        it.store, it.app.kinds, "upkeep", interval=60.0, batch=batch, listeners=[it.told]
    )


def test_only_the_newest_are_kept_and_on_deleted_is_called_for_the_others(tmp_path, caplog):
    cleared = []

    async def clear(job):
        cleared.append(job.id)
        if len(cleared) == 2:
            raise OSError("stuck")

    app, work = jobs_with(Retention(complete_for=None, complete_newest=3, on_deleted=clear))

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            await it.enqueue(work, *(f"j{n}" for n in range(10)))
            await it.run()
            assert await service(it, batch=2).round() == 7
            assert await service(it).round() == 0
            assert len(cleared) == 7
            deleted = sum((event.jobs for event in it.told.of(JobsDeleted)), ())
            assert {job.id for job in deleted} == set(cleared)
            assert (await it.store.stats()).lanes[0].complete == 3
            assert [await it.store.get(job_id) for job_id in cleared] == [None] * 7

    asyncio.run(go())
    assert "on_deleted failed for job" in caplog.text


def test_on_deleted_may_be_a_plain_function(tmp_path):
    cleared = []
    app, work = jobs_with(Retention(complete_for=0.0, on_deleted=cleared.append))

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            await it.enqueue(work, "j")
            await it.run()
            await asyncio.sleep(0.01)
            assert await service(it).round() == 1
            assert [job.id for job in cleared] == ["j"]

    asyncio.run(go())


def test_without_a_limit_nothing_is_deleted(tmp_path):
    app, work = jobs_with(FOREVER)

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            await it.enqueue(work, "j")
            await it.run()
            assert await service(it).round() == 0

    asyncio.run(go())
