"""Facts about several handles, like those of several processes, on one database."""

import asyncio

from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import Store
from holdfast.testing.conformance.world import World, fact, ids


@fact
async def one_handle_sees_the_writes_of_the_other(world: World) -> None:
    second = await world.open_second()
    await world.add("a")
    job = await second.get("a")
    assert job is not None
    assert job.status is JobStatus.QUEUED
    assert await second.cancel("a", now=world.now)
    assert (await world.job("a")).status is JobStatus.CANCELLED


@fact
async def two_workers_share_the_jobs_without_overlap(world: World) -> None:
    second = await world.open_second()
    names = [f"job-{number:03d}" for number in range(60)]
    await world.store.enqueue([NewJob(name, "work") for name in names], now=world.now)

    async def drain(worker: str, store: Store) -> list[str]:
        mine: list[str] = []
        finished: list[Finished] = []
        while True:
            result = await world.tick(finished, 7, worker, store=store)
            assert result.refused == ()
            if not result.claims:
                return mine
            mine += ids(result.claims)
            finished = [Finished(claim.lease, Completed()) for claim in result.claims]

    first, other = await asyncio.gather(drain("one", world.store), drain("two", second))
    assert sorted(first + other) == names
    assert (await world.lane()).complete == 60


@fact
async def enqueueing_wakes_a_waiting_worker(world: World) -> None:
    """Also if it happens between the empty tick and the wait."""
    empty = await world.tick([], 1)
    await world.add("a")
    assert await world.store.wait_for_work(empty.mark, 10)
    await world.claim_one()
    idle = await world.tick([], 1)
    waiting = asyncio.create_task(world.store.wait_for_work(idle.mark, 10))
    await asyncio.sleep(0)
    await world.add("b")
    assert await waiting


@fact
async def enqueueing_by_another_handle_wakes_a_waiting_worker(world: World) -> None:
    second = await world.open_second()
    idle = await world.tick([], 1)
    waiting = asyncio.create_task(world.store.wait_for_work(idle.mark, 10))
    await asyncio.sleep(0.05)
    await second.enqueue([NewJob("a", "work")], now=world.now)
    assert await waiting


@fact
async def waiting_for_work_ends_after_the_timeout(world: World) -> None:
    """With False or a wrong hint, never later."""
    idle = await world.tick([], 1)
    await asyncio.wait_for(world.store.wait_for_work(idle.mark, 0.02), 5)


@fact
async def many_writers_lose_nothing(world: World) -> None:
    second = await world.open_second()
    await asyncio.gather(
        *(
            store.enqueue([NewJob(f"{name}-{number}", "work")], now=world.now)
            for number in range(50)
            for name, store in (("a", world.store), ("b", second))
        )
    )
    assert (await world.lane()).ready == 100
    assert len(await world.claim(200)) == 100


@fact
async def one_bad_request_does_not_affect_concurrent_ones(world: World) -> None:
    """Requests in the same commit succeed or fail separately."""
    good = [world.add(f"job-{number}") for number in range(5)]
    bad = world.store.progress((await world.start("running")).lease, 7.0, now=world.now)
    results = await asyncio.gather(*good, bad, return_exceptions=True)
    assert all(not isinstance(result, BaseException) for result in results[:5])
    assert isinstance(results[5], Exception)
    assert (await world.lane()).ready == 5


@fact
async def heartbeats_work_from_a_thread_with_its_own_loop(world: World) -> None:
    """A blocked event loop cannot lose them."""
    claim = await world.start("a")
    heartbeats = world.store.heartbeats()

    def beat() -> float:
        async def extend() -> int:
            try:
                extended = await heartbeats.extend([claim.lease], 500.0, now=world.now)
                return len(extended.lost)
            finally:
                await heartbeats.close()

        return asyncio.run(extend())

    assert await asyncio.to_thread(beat) == 0
    assert (await world.job("a")).lease_expires_at == world.now + 500
