"""Kinds without dead letters keep to it, whichever worker ends their jobs."""

import asyncio
import logging

from tests.support.workers import rig

from holdfast import RetryPolicy
from holdfast.jobs.declare.app import App
from holdfast.jobs.maintenance.dead_letter_kinds import DeadLetterKinds
from holdfast.jobs.maintenance.deadlines import Deadlines
from holdfast.jobs.model import DeadLetterReason


def test_a_job_past_its_deadline_is_no_dead_letter_and_is_not_logged_as_one(tmp_path, caplog):
    app = App("a")

    @app.job(dead_letters=False)
    async def without(ctx): ...

    @app.job()
    async def ordinary(ctx): ...

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            kinds = DeadLetterKinds(it.store, app.kinds, interval=60.0)
            assert [await kinds.round(), await kinds.round()] == [1, 0]
            now = await it.store.ping()
            await it.enqueue(without, "w", deadline_at=now - 1)
            await it.enqueue(ordinary, "o", deadline_at=now - 1)
            assert await Deadlines(it.store, interval=60.0).round() == 2
            assert (await it.store.stats()).dead_letters == 1

    asyncio.run(go())
    levels = {
        record.job_id: record.levelno for record in caplog.records if "job_id" in vars(record)
    }
    assert levels == {"w": logging.WARNING, "o": logging.ERROR}


def test_during_a_rolling_update_dead_letters_that_a_worker_reports_are_kept(tmp_path):
    def release(dead_letters):
        app = App("a")

        @app.job(dead_letters=dead_letters, retry=RetryPolicy(max_attempts=1))
        async def work(ctx):
            raise ConnectionError("refused")

        return app, work

    old, _ = release(False)
    new, work = release(True)

    async def go():
        async with rig(tmp_path, new, maintenance=None) as it:
            for app in (new, old):
                await DeadLetterKinds(it.store, app.kinds, interval=60.0).round()
            await it.enqueue(work, "j")
            await it.run()
            assert (await it.store.get("j")).dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED

    asyncio.run(go())
