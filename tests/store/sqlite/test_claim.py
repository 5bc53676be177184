"""In which order lanes are served."""

import asyncio

import pytest

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore


@pytest.mark.parametrize("queue", ["default", "another"])
def test_lanes_that_are_new_do_not_starve_one_that_waits(tmp_path, queue):
    """As when each job is for another host; in the same queue or in one that is served with it."""

    async def scenario():
        async with SQLiteStore(tmp_path / "jobs.db") as store:
            waiting = [NewJob(f"waiting-{n}", "work", downstream="waiting") for n in range(3)]
            await store.enqueue(waiting)
            request = ClaimRequest(1, ("default", "another"), {"work": None}, 60.0)
            claimed = []
            for n in range(8):
                job = NewJob(f"new-{n}", "work", downstream=f"a-{n}", queue=queue)
                await store.enqueue([job])
                claimed += [each.job_id for each in (await store.tick("w", (), request)).claims]
            assert {job.id for job in waiting} <= set(claimed), claimed

    asyncio.run(scenario())


def test_a_kind_that_is_new_in_a_lane_shares_the_lanes_turn(tmp_path):
    async def scenario():
        async with SQLiteStore(tmp_path / "jobs.db") as store:
            request = ClaimRequest(1, ("default",), {"work": None, "other": None}, 60.0)
            await store.enqueue([NewJob(f"b-{n}", "work", downstream="b") for n in range(2)])
            await store.enqueue([NewJob("c", "work", downstream="c")])
            await store.enqueue([NewJob("urgent", "other", downstream="b", priority=5)])
            (first,) = (await store.tick("w", (), request)).claims
            assert first.job_id == "urgent"

    asyncio.run(scenario())
