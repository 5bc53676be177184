"""Limits of owners hold over worker processes."""

import asyncio
from collections import Counter

from tests.faults import jobs as faults
from tests.faults.jobs import ledger
from tests.faults.test_guarantees import count, new
from tests.support.waiting import until

from holdfast.jobs.owner_limits import OwnerLimits


def test_two_worker_processes_never_run_two_jobs_of_an_owner_with_a_limit_of_one(fleet):
    anns = [f"ann-{n}" for n in range(16)]
    bobs = [f"bob-{n}" for n in range(8)]

    async def go():
        async with fleet.open() as store:
            await store.set_owner_limits("ann", OwnerLimits(concurrency=1))
            await store.enqueue(new(faults.effect, *anns, arguments=0.02, owner="ann"))
            await store.enqueue(new(faults.effect, *bobs, arguments=0.02, owner="bob"))
            for _ in range(2):
                fleet.start()

            async def all_complete():
                return await count(store, "complete") == len(anns + bobs)

            await until(all_complete)

    asyncio.run(go())
    lines = [(what, job_id) for job_id, _, _, what in ledger(fleet.ledger)]
    assert Counter(what for what, _ in lines) == {"start": 24, "end": 24}
    of_ann = [line for line in lines if line[1].startswith("ann")]
    for begin, end in zip(of_ann[::2], of_ann[1::2], strict=True):
        assert begin == ("start", end[1]), of_ann
