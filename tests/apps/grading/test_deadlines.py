"""Submissions past their deadline fail with TIMEOUT, once, in one of many workers."""

import asyncio

from tests.apps.grading.samples import new_submission, publish
from tests.apps.grading.world import ShiftedClock, grading_world
from tests.support.waiting import until

from holdfast_grading import deadlines
from holdfast_grading.deadlines import expire
from holdfast_grading.tables import Status


def test_pending_and_processing_submissions_time_out_and_their_owners_are_notified(
    database_url, tmp_path, monkeypatch
):
    monkeypatch.setattr(deadlines, "AT_ONCE", 2)

    async def main():
        async with grading_world(database_url, tmp_path) as world:
            add = world.submissions.add
            processing, _ = await add(new_submission(), now=1000.0)
            await publish(world.engine)
            pending = [(await add(new_submission("bob"), now=1000.0))[0] for _ in range(4)]
            later, _ = await add(new_submission(), now=1000.5)
            assert (await world.submissions.find(processing.id)).status is Status.PROCESSING
            assert await expire(world.engine, now=2200.0) == 0
            assert await expire(world.engine, now=2200.2) == 5
            assert await expire(world.engine, now=2200.2) == 0
            for submission in (processing, *pending):
                found = await world.submissions.find(submission.id)
                assert (found.status, found.failure_reason) == (Status.FAILED, "TIMEOUT")
                assert found.completed_at == 2200.2
            assert (await world.submissions.find(later.id)).status is Status.PENDING
            assert await world.notices("ann") == [("FAILED", "TIMEOUT")]
            assert await world.notices("bob") == [("FAILED", "TIMEOUT")] * 4

    asyncio.run(main())


def test_the_deadline_is_watched_by_one_of_two_workers(sqlite_url, tmp_path):
    async def main():
        clock = ShiftedClock()
        async with grading_world(sqlite_url, tmp_path, clock=clock, check_seconds=1.0) as world:
            submission, _ = await world.submissions.add(new_submission(seconds=0.5))
            clock.advance(1)
            workers = [asyncio.create_task(world.engine.work()) for _ in range(2)]

            async def failed():
                await asyncio.sleep(0.05)
                found = await world.submissions.find(submission.id)
                return found.failure_reason == "TIMEOUT"

            await until(failed)
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            assert await world.notices("ann") == [("FAILED", "TIMEOUT")]

    asyncio.run(main())
