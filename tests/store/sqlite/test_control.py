"""Manual requests and heartbeats."""

import asyncio

import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.model import (
    Completed,
    EventName,
    Finished,
    JobError,
    JobStatus,
    NewJob,
    Released,
    Retry,
)
from holdfast.jobs.store_port import Change, ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock

NOW = 1_000.0
REQUEST = ClaimRequest(5, ("default",), {"work": None}, 10.0)


def on_a_store(path, scenario):
    async def main():
        async with SQLiteStore(path, clock=VirtualClock()) as store:
            return await scenario(store)

    return asyncio.run(main())


async def claim(store, now):
    return (await store.tick("w", (), REQUEST, now=now)).claims


async def refused_writes(store):
    return (await store.stats()).totals.get("refused_writes", 0)


def test_a_scheduled_retry_can_be_made_ready_at_once(tmp_path):
    async def scenario(store):
        await store.enqueue([NewJob("a", "work")], now=NOW)
        (first,) = await claim(store, NOW)
        later = Retry(60.0, JobError(ErrorCode.GW_5XX, "no"))
        result = await store.tick("w", [Finished(first.lease, later)], now=NOW + 1)
        before = await store.get("a", now=NOW + 2)
        assert await store.expedite("a", now=NOW + 2) is Change.DONE
        assert await store.wait_for_work(result.mark, 20)
        job = await store.get("a", now=NOW + 2)
        kept = ("attempt_count", "manual_retry_count", "queued_at", "token", "deadline_at")
        assert [getattr(job, name) for name in kept] == [getattr(before, name) for name in kept]
        assert (job.status, job.ready_at) == (JobStatus.QUEUED, NOW + 2)
        assert [await store.expedite("a", now=NOW + 3) for _ in range(2)] == [Change.DONE] * 2
        assert (await store.get("a", now=NOW + 3)).ready_at == NOW + 2
        *_, last = await store.events("a")
        assert (last.name, last.attempt, last.at) == (EventName.EXPEDITED, 1, NOW + 2)
        (lane,) = (await store.stats()).lanes
        assert (lane.ready, lane.scheduled) == (1, 0)
        (again,) = await claim(store, NOW + 2)
        assert again.attempt == 2

    on_a_store(tmp_path / "a.db", scenario)


def test_a_job_that_is_due_and_not_promoted_yet_is_left_as_it_is(tmp_path):
    async def scenario(store):
        await store.enqueue([NewJob("a", "work", run_at=NOW + 5)], now=NOW)
        assert await store.expedite("a", now=NOW + 5) is Change.DONE
        assert [event.name for event in await store.events("a")] == [EventName.QUEUED]
        (lane,) = (await store.stats()).lanes
        assert (lane.ready, lane.scheduled) == (0, 1)

    on_a_store(tmp_path / "a.db", scenario)


def test_only_a_queued_job_can_be_made_ready(tmp_path):
    async def scenario(store):
        assert await store.expedite("unknown", now=NOW) is Change.MISSING
        await store.enqueue([NewJob("a", "work", status=JobStatus.UPLOADED)], now=NOW)
        assert await store.expedite("a", now=NOW) is Change.REFUSED
        await store.submit("a", now=NOW)
        (run,) = await claim(store, NOW)
        assert await store.expedite("a", now=NOW) is Change.REFUSED
        await store.tick("w", [Finished(run.lease, Completed())], now=NOW)
        assert await store.expedite("a", now=NOW) is Change.REFUSED

    on_a_store(tmp_path / "a.db", scenario)


@pytest.mark.parametrize("outcome", [Completed(), Released()])
def test_a_heartbeat_that_crosses_its_own_workers_report_is_not_counted_as_a_zombie(
    tmp_path, outcome
):
    async def scenario(store):
        await store.enqueue([NewJob("a", "work")], now=NOW)
        (run,) = await claim(store, NOW)
        await store.tick("w", [Finished(run.lease, outcome)], now=NOW + 1)
        extended = await store.heartbeats().extend([run.lease], 10.0, now=NOW + 1)
        assert extended.lost == (run.lease,)
        assert not await store.progress(run.lease, 0.5, now=NOW + 1)
        assert await refused_writes(store) == 0

    on_a_store(tmp_path / "a.db", scenario)


def test_a_zombies_heartbeat_and_progress_are_counted_in_every_status_of_its_job(tmp_path):
    async def scenario(store):
        await store.enqueue([NewJob("a", "work", max_attempts=3)], now=NOW)
        (lost,) = await claim(store, NOW)
        await store.rescue(now=NOW + 20)
        heartbeats = store.heartbeats()
        await heartbeats.extend([lost.lease], 10.0, now=NOW + 20)
        assert await refused_writes(store) == 1
        (other,) = await claim(store, NOW + 20)
        assert not await store.progress(lost.lease, 0.5, now=NOW + 20)
        assert await refused_writes(store) == 2
        await store.tick("w", [Finished(other.lease, Completed())], now=NOW + 21)
        await heartbeats.extend([lost.lease, other.lease], 10.0, now=NOW + 22)
        assert await refused_writes(store) == 3

    on_a_store(tmp_path / "a.db", scenario)


def test_a_heartbeat_after_the_deadline_is_a_zombies(tmp_path):
    async def scenario(store):
        await store.enqueue([NewJob("a", "work", deadline_at=NOW + 2)], now=NOW)
        (run,) = await claim(store, NOW)
        (expired,) = await store.expire_deadlines(now=NOW + 3)
        assert expired.job_id == "a"
        await store.heartbeats().extend([run.lease], 10.0, now=NOW + 3)
        assert await refused_writes(store) == 1

    on_a_store(tmp_path / "a.db", scenario)
