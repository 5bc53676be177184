"""Kinds without dead letters keep to it, whichever worker ends their jobs."""

import asyncio
import logging

from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.maintenance.dead_letter_kinds import DeadLetterKinds
from holdfast.jobs.maintenance.deadlines import Deadlines


def test_a_job_past_its_deadline_is_no_dead_letter_and_is_not_logged_as_one(tmp_path, caplog):
    app = App("a")

    @app.job(dead_letters=False)
    async def quiet(ctx): ...

    @app.job()
    async def loud(ctx): ...

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            kinds = DeadLetterKinds(it.store, app.kinds, interval=60.0)
            assert [await kinds.round(), await kinds.round()] == [1, 0]
            now = await it.store.ping()
            await it.enqueue(quiet, "q", deadline_at=now - 1)
            await it.enqueue(loud, "l", deadline_at=now - 1)
            assert await Deadlines(it.store, interval=60.0).round() == 2
            assert (await it.store.stats()).dead_letters == 1

    asyncio.run(go())
    levels = {
        record.job_id: record.levelno for record in caplog.records if "job_id" in vars(record)
    }
    assert levels == {"q": logging.WARNING, "l": logging.ERROR}
