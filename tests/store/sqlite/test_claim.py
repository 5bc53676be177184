"""In which order lanes are served."""

import asyncio

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore


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
