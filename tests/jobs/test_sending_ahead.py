"""A worker whose store ticks in another process: its next tick goes out before handlers start."""

import asyncio
from contextlib import suppress

import pytest
from tests.support.workers import SOON, rig

from holdfast.jobs.app import App

JOBS = ("a", "b", "c", "d")


class Elsewhere:
    """A store in front of another that notes its ticks, and says where they are worked on."""

    def __init__(self, store, noted, *, apart):
        self._store = store
        self._noted = noted
        self.ticks_apart = apart
        self.on_second_tick = lambda: None

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def tick(self, *args, **kwargs):
        self._noted.append("tick")
        if self._noted.count("tick") == 2:
            self.on_second_tick()
        return await self._store.tick(*args, **kwargs)


@pytest.mark.parametrize(
    "apart, order",
    [(True, ["tick", "tick", "job", "job"]), (False, ["tick", "job", "job", "tick"])],
)
def test_a_tick_that_another_process_works_on_is_sent_before_what_was_claimed_starts(
    tmp_path, apart, order
):
    app, noted = App("a"), []

    @app.job()
    async def note(ctx):
        noted.append("job")

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(note, *JOBS)
            it.worker._store = it.worker._reporter._store = Elsewhere(it.store, noted, apart=apart)
            await it.run()
            assert noted[:4] == order
            assert noted.count("job") == len(JOBS)
            assert {await it.status(job) for job in JOBS} == {"complete"}

    asyncio.run(go())


def test_what_was_claimed_and_not_started_is_handed_back_by_a_cancelled_worker(tmp_path):
    app, noted = App("a"), []

    @app.job()
    async def note(ctx):
        noted.append("job")

    async def go():
        async with rig(tmp_path, app, concurrency=4, batch=2, maintenance=None) as it:
            await it.enqueue(note, *JOBS)
            store = Elsewhere(it.store, noted, apart=True)
            it.worker._store = it.worker._reporter._store = store
            task = asyncio.create_task(it.worker.run())
            store.on_second_tick = task.cancel
            async with asyncio.timeout(SOON):
                with suppress(asyncio.CancelledError):
                    await task
            assert "job" not in noted
            assert {await it.status(job) for job in JOBS} == {"queued"}
            assert [await it.outcomes(job) for job in JOBS] == [["released"]] * len(JOBS)

    asyncio.run(go())
