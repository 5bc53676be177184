"""Facts about paused queues and kinds, and about workers that are asked to finish."""

import asyncio

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.control_port import PauseScope, StoredPause, WorkerRecord
from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.held import HeldBy
from holdfast.jobs.model import Completed, JobStatus
from holdfast.testing.conformance.world import World, fact, ids

_BOTH = ("default", "other")


@fact
async def a_paused_queue_gives_no_jobs(world: World) -> None:
    """Other queues do; jobs are still created; after the resume they run in their order."""
    await world.add("before")
    assert await world.store.pause(PauseScope.QUEUE, ["default"], now=world.now) == ("default",)
    await world.add("after")
    await world.add("free", queue="other")
    assert ids(await world.claim(queues=_BOTH)) == ["free"]
    assert ids(await world.claim(queues=_BOTH)) == []
    assert await world.store.resume(PauseScope.QUEUE, ["default"], now=world.now) == ("default",)
    assert ids(await world.claim(queues=_BOTH)) == ["before", "after"]


@fact
async def a_paused_kind_gives_no_jobs(world: World) -> None:
    """Other kinds of the same queue and downstream do."""
    await world.declare()
    for name, kind in {"a": "work", "b": "other", "c": "work"}.items():
        await world.add(name, kind, downstream="gateway")
    await world.store.pause(PauseScope.KIND, ["other"], now=world.now)
    assert ids(await world.claim()) == ["a", "c"]
    await world.store.resume(PauseScope.KIND, ["other"], now=world.now)
    assert ids(await world.claim()) == ["b"]


@fact
async def a_paused_kind_with_a_limit_gives_no_jobs(world: World) -> None:
    """The claim that checks limits skips it as well; a kind beside it is not counted wrongly."""
    await world.declare(concurrency=3)
    for number in range(4):
        await world.add(f"paused-{number}", "other", downstream="gateway", priority=5)
        await world.add(f"job-{number}", downstream="gateway")
    await world.store.pause(PauseScope.KIND, ["other"], now=world.now)
    kinds = {"work": 2, "other": 2}
    assert ids(await world.claim(kinds=kinds)) == ["job-0", "job-1"]
    await world.store.resume(PauseScope.KIND, ["other"], now=world.now)
    assert ids(await world.claim(kinds=kinds)) == ["paused-0"]


@fact
async def a_pause_holds_for_every_store_with_the_next_claim(world: World) -> None:
    """Also for one that has just claimed from the queue."""
    second = await world.open_second()
    for number in range(6):
        await world.add(f"job-{number}")
    assert ids(await world.claim(2, store=second)) == ["job-0", "job-1"]
    await world.store.pause(PauseScope.QUEUE, ["default"], now=world.now)
    assert await world.claim(2, store=second) == ()
    assert await world.claim(2) == ()
    await second.resume(PauseScope.QUEUE, ["default"], now=world.now)
    assert ids(await world.claim(2)) == ["job-2", "job-3"]
    assert ids(await world.claim(2, store=second)) == ["job-4", "job-5"]


@fact
async def a_running_attempt_outlasts_a_pause(world: World) -> None:
    """Its report is accepted, and a retry waits for the resume."""
    claim = await world.start("a")
    await world.store.pause(PauseScope.QUEUE, ["default"], now=world.now)
    await world.store.pause(PauseScope.KIND, ["work"], now=world.now)
    assert not (await world.extend([claim.lease])).lost
    assert not (await world.finish(claim, Completed())).refused
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def a_paused_job_is_shown_as_held_and_why(world: World) -> None:
    """Where several reasons hold, the pauses come first; a job that is not due is not held."""
    # The view knows no other time than the database's; one second for clocks of low resolution.
    world.now = await world.store.ping() - 1
    await world.add("a")
    await world.add("later", run_at=world.now + 1000)

    async def held_by(job_id: str) -> HeldBy | None:
        job = await world.job(job_id)
        assert await world.tables.shown_held_by(job_id) == job.held_by
        (listed,) = [each for each in (await world.store.list_jobs()).jobs if each.id == job_id]
        assert listed.held_by is job.held_by
        return job.held_by

    assert await held_by("a") is None
    await world.store.pause(PauseScope.KIND, ["work"], now=world.now)
    assert await held_by("a") is HeldBy.KIND
    await world.store.pause(PauseScope.QUEUE, ["default"], now=world.now)
    assert await held_by("a") is HeldBy.QUEUE
    assert await held_by("later") is None
    await world.store.resume(PauseScope.QUEUE, ["default"], now=world.now)
    assert await held_by("a") is HeldBy.KIND
    await world.store.resume(PauseScope.KIND, ["work"], now=world.now)
    await world.claim()
    assert await held_by("a") is None


@fact
async def pauses_are_listed_and_repeating_one_changes_nothing(world: World) -> None:
    """The time is that of the first."""
    store = world.store
    assert await store.pauses() == ()
    first = world.now
    assert await store.pause(PauseScope.QUEUE, ["b", "a"], now=first) == ("a", "b")
    world.pass_time(10)
    assert await store.pause(PauseScope.QUEUE, ["a"], now=world.now) == ()
    assert await store.pause(PauseScope.KIND, ["a"], now=world.now) == ("a",)
    queues = (StoredPause(PauseScope.QUEUE, "a", first), StoredPause(PauseScope.QUEUE, "b", first))
    assert await store.pauses() == (StoredPause(PauseScope.KIND, "a", world.now), *queues)
    assert await store.resume(PauseScope.QUEUE, ["a", "c"], now=world.now) == ("a",)
    assert await store.resume(PauseScope.QUEUE, ["a"], now=world.now) == ()


@fact
async def a_resume_wakes_waiting_workers(world: World) -> None:
    """Long before they would poll."""
    await world.add("a")
    await world.store.pause(PauseScope.QUEUE, ["default"], now=world.now)
    mark = (await world.tick([], 1)).mark
    waiting = asyncio.create_task(world.store.wait_for_work(mark, 60.0))
    await world.store.resume(PauseScope.QUEUE, ["default"], now=world.now)
    async with asyncio.timeout(30):
        assert await waiting
    assert ids(await world.claim()) == ["a"]


@fact
async def a_deadline_passes_in_a_paused_queue(world: World) -> None:
    """The job fails as any other."""
    await world.add("a", deadline_at=world.now + 10)
    await world.store.pause(PauseScope.QUEUE, ["default"], now=world.now)
    world.pass_time(11)
    (expired,) = await world.store.expire_deadlines(now=world.now)
    assert expired.job_id == "a"


@fact
async def workers_are_listed_while_they_live_or_have_jobs(world: World) -> None:
    """With the number of their jobs; one that has ended without jobs is not."""
    heartbeats = world.store.heartbeats()
    await heartbeats.register("alive")
    await world.tables.kill_worker("killed")
    await world.start("a", worker="busy")
    await world.start("b", worker="busy")
    assert await world.store.workers() == (WorkerRecord("alive", 0), WorkerRecord("busy", 2))
    await heartbeats.close()

    async def listed() -> list[str]:
        return [worker.id for worker in await world.store.workers()]

    async with asyncio.timeout(30):
        while "alive" in await listed():
            await SYSTEM_CLOCK.sleep_async(0.01)  # a server ends sessions in its own time


@fact
async def a_worker_finds_the_request_to_finish(world: World) -> None:
    """Only the one that was asked; a worker that is not registered cannot be."""
    heartbeats, store = world.store.heartbeats(), world.store
    await heartbeats.register("worker-1")
    await world.start("a", worker="worker-2")
    assert await heartbeats.requests("worker-1") == WorkerRequests()
    assert not await store.request_finish("nobody", now=world.now)
    assert await store.request_finish("worker-1", now=world.now)
    asked_at = world.now
    world.pass_time(5)
    assert await store.request_finish("worker-1", now=world.now)
    assert await heartbeats.requests("worker-1") == WorkerRequests(finish=True)
    assert await heartbeats.requests("worker-2") == WorkerRequests()
    assert await store.workers() == (
        WorkerRecord("worker-1", 0, asked_at), WorkerRecord("worker-2", 1),
    )  # fmt: skip
    await store.cancel("a", now=world.now)
    assert await store.request_finish("worker-2", now=world.now)
    assert await heartbeats.requests("worker-2") == WorkerRequests(cancel=("a",), finish=True)
    await heartbeats.close()
