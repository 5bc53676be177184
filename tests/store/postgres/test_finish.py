"""Unusual reports: repeated, mixed, or from an unknown worker."""

import asyncio

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, BROKEN, a_session_waits, jobs

from holdfast.jobs.model import (
    AttemptOutcome,
    Cancelled,
    Completed,
    EventName,
    Failed,
    Finished,
    JobStatus,
    NewJob,
    Released,
    Retry,
)
from holdfast.jobs.store_port import Refusal
from holdfast.store.postgres.store import PostgresStore


def test_a_tick_of_all_outcomes_at_once(play):
    async def scenario(store):
        await store.enqueue(jobs(6))
        claims = (await store.tick("w", claim=ANY)).claims
        outcomes = [
            Completed('"r"'),
            Retry(30, BROKEN),
            Failed(BROKEN),
            Released(),
            Cancelled(),
            Completed(),
        ]
        result = await store.tick(
            "w",
            [Finished(claim.lease, end) for claim, end in zip(claims, outcomes, strict=True)],
        )
        assert (result.refused, result.overruled) == ((), ())
        found = [await store.get(claim.job_id) for claim in claims]
        assert [job.status for job in found] == [
            JobStatus.COMPLETE,
            JobStatus.QUEUED,
            JobStatus.FAILED,
            JobStatus.QUEUED,
            JobStatus.CANCELLED,
            JobStatus.COMPLETE,
        ]
        assert [job.attempt_count for job in found] == [1, 1, 1, 0, 1, 1]
        assert [job.result for job in found] == ['"r"', None, None, None, None, None]
        (lane,) = (await store.stats()).lanes
        assert (lane.ready, lane.scheduled, lane.processing) == (1, 1, 0)
        assert (lane.complete, lane.failed, lane.cancelled) == (2, 1, 1)

    play(scenario)


def test_a_report_given_twice_in_one_tick_counts_once(play):
    async def scenario(store):
        await store.enqueue(jobs(2))
        one, two = (await store.tick("w", claim=ANY)).claims
        result = await store.tick(
            "w",
            [
                Finished(one.lease, Completed("1")),
                Finished(one.lease, Completed("2")),
                Finished(two.lease, Failed(BROKEN)),
                Finished(two.lease, Retry(0, BROKEN)),
            ],
        )
        assert [refused.reason for refused in result.refused] == [Refusal.STALE] * 2
        assert (await store.get(one.job_id)).result == "1"
        assert len(await store.attempts(one.job_id)) == 1
        assert len(await store.attempts(two.job_id)) == 1
        assert (await store.stats()).totals["refused_writes"] == 2

    play(scenario)


def test_a_report_may_come_through_another_process(bench):
    async def scenario():
        async with bench.stores(2) as (one, two):
            await one.enqueue(jobs(3))
            claims = (await one.tick("w", claim=ANY)).claims
            first = [Finished(claims[0].lease, Completed())]
            assert (await two.tick("w", first)).refused == ()
            rest = [Finished(claim.lease, Retry(0, BROKEN)) for claim in claims]
            result = await two.tick("w", rest)
            assert [refused.lease for refused in result.refused] == [claims[0].lease]
            assert (await one.stats()).lanes[0].ready == 2

    asyncio.run(scenario())


def test_a_report_about_an_unknown_job_is_refused(play):
    async def scenario(store):
        await store.enqueue(jobs(1))
        (claim,) = (await store.tick("w", claim=ANY)).claims
        await store.cancel(claim.job_id)
        lease = type(claim.lease)("unknown", 1, "w", 0.0)
        result = await store.tick(
            "w", [Finished(lease, Completed()), Finished(claim.lease, Retry(0, BROKEN))]
        )
        assert [refused.lease.job_id for refused in result.refused] == ["unknown"]
        assert [overruled.status for overruled in result.overruled] == [JobStatus.CANCELLED]

    play(scenario)


@pytest.mark.parametrize("first", [0, 2], ids=["all of them", "some of them"])
def test_completions_without_a_result_that_are_repeated_are_refused(play, first):
    """They differ only in job and duration, and have a statement of their own."""

    async def scenario(store):
        await store.enqueue(jobs(4))
        claims = (await store.tick("w", claim=ANY)).claims
        reports = [Finished(claim.lease, Completed(), 0.5) for claim in claims]
        before = reports if first == 0 else reports[:first]
        assert (await store.tick("w", before)).refused == ()
        result = await store.tick("w", reports)
        assert [each.lease for each in result.refused] == [report.lease for report in before]
        for claim in claims:
            (attempt,) = await store.attempts(claim.job_id)
            assert (attempt.outcome, attempt.duration) == (AttemptOutcome.COMPLETE, 0.5)

    play(scenario)


def test_a_worker_that_never_reports_is_forgotten(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.tick._SEQS_KEPT", 3)

    async def scenario(store):
        await store.enqueue(jobs(9))
        claims = []
        for _ in range(3):
            claims += (
                await store.tick("w", claim=ANY.__class__(3, *(("default",), {"work": None})))
            ).claims
        result = await store.tick("w", [Finished(claim.lease, Completed()) for claim in claims])
        assert result.refused == ()
        assert (await store.stats()).lanes[0].complete == 9

    play(scenario)


NOW = 1_900_000_000.0


def retried(play, outcome, *, cancel=False):
    """Report `outcome` of a job's last attempt; return the store's answers afterwards."""

    async def scenario(store):
        await store.enqueue(jobs(1, max_attempts=1), now=NOW)
        (claim,) = (await store.tick("w", claim=ANY, now=NOW + 1)).claims
        if cancel:
            await store.cancel(claim.job_id, now=NOW + 1)
        result = await store.tick("w", [Finished(claim.lease, outcome, 0.5)], now=NOW + 2)
        job = await store.get(claim.job_id, now=NOW + 2)
        (attempt,) = await store.attempts(claim.job_id)
        names = [event.name for event in await store.events(claim.job_id)]
        stats = await store.stats()
        (again,) = (await store.tick("w", claim=ANY, now=NOW + 9)).claims or (None,)
        return result, job, attempt, names, stats, again

    return play(scenario)


@pytest.mark.parametrize("after", [0.0, 5.0])
def test_a_retry_that_is_not_counted_gives_its_attempt_back(play, after):
    result, job, attempt, names, stats, again = retried(play, Retry(after, BROKEN, counted=False))
    assert result.refused == result.overruled == ()
    assert (job.status, job.attempt_count, job.ready_at) == (JobStatus.QUEUED, 0, NOW + 2 + after)
    assert (job.error, job.dead_letter, job.worker_id) == (None, None, None)
    assert (attempt.number, attempt.outcome, attempt.error) == (1, AttemptOutcome.RETRY, BROKEN)
    assert attempt.retry_after == after
    assert names == [EventName.QUEUED, EventName.PROCESSING, EventName.RETRY]
    assert stats.dead_letters == 0
    (lane,) = stats.lanes
    assert (lane.ready, lane.scheduled, lane.failed) == ((1, 0, 0) if after == 0 else (0, 1, 0))
    assert (again.attempt, again.lease.token) == (1, 2)


def test_a_retry_that_is_counted_ends_with_the_last_attempt(play):
    result, job, _, _, stats, again = retried(play, Retry(0.0, BROKEN))
    assert [overruled.status for overruled in result.overruled] == [JobStatus.FAILED]
    assert (job.status, stats.dead_letters, again) == (JobStatus.FAILED, 1, None)


def test_a_retry_that_is_not_counted_yields_to_a_request_to_cancel(play):
    outcome = Retry(0.0, BROKEN, counted=False)
    result, job, attempt, _, _, again = retried(play, outcome, cancel=True)
    assert [overruled.status for overruled in result.overruled] == [JobStatus.CANCELLED]
    assert (job.status, attempt.outcome) == (JobStatus.CANCELLED, AttemptOutcome.CANCELLED)
    assert again is None


def test_counted_and_uncounted_retries_of_one_tick_are_distinguished(play):
    async def scenario(store):
        await store.enqueue(jobs(4))
        claims = (await store.tick("w", claim=ANY)).claims
        outcomes = [
            Retry(0, BROKEN, counted=False),
            Retry(0, BROKEN),
            Released(),
            Retry(0, BROKEN, counted=False),
        ]
        await store.tick(
            "w",
            [Finished(claim.lease, end) for claim, end in zip(claims, outcomes, strict=True)],
        )
        found = [await store.get(claim.job_id) for claim in claims]
        assert [job.attempt_count for job in found] == [0, 1, 0, 0]

    play(scenario)


def test_a_job_released_without_a_delay_keeps_its_place(play):
    async def scenario(store):
        await store.enqueue(jobs(1, prefix="old"), now=NOW)
        await store.enqueue(jobs(1, prefix="new"), now=NOW + 1)
        one = ANY.__class__(1, ANY.queues, ANY.kinds)
        (claim,) = (await store.tick("w", claim=one, now=NOW + 2)).claims
        await store.tick("w", [Finished(claim.lease, Released())], now=NOW + 3)
        job = await store.get(claim.job_id, now=NOW + 3)
        assert (job.ready_at, job.queued_at) == (NOW, NOW + 3)
        again = (await store.tick("w", claim=ANY, now=NOW + 3)).claims
        assert [claim.job_id for claim in again] == ["old-00000", "new-00000"]

    play(scenario)


def test_a_job_released_with_a_delay_waits_until_then(play):
    async def scenario(store):
        await store.enqueue(jobs(1), now=NOW)
        (claim,) = (await store.tick("w", claim=ANY, now=NOW + 2)).claims
        await store.tick("w", [Finished(claim.lease, Released(5))], now=NOW + 3)
        assert (await store.get(claim.job_id, now=NOW + 3)).ready_at == NOW + 8
        assert (await store.tick("w", claim=ANY, now=NOW + 7)).claims == ()
        assert len((await store.tick("w", claim=ANY, now=NOW + 8)).claims) == 1

    play(scenario)


def test_a_completion_that_waited_for_a_heartbeat_is_in_the_history(postgres_url):
    """A row that changed meanwhile is checked again; it must stay on the page of the others."""

    async def scenario():
        async with PostgresStore(postgres_url) as store:
            await store.enqueue([NewJob("a", "work"), NewJob("b", "work")])
            claims = (await store.tick("w", claim=ANY)).claims
            heartbeat = await asyncpg.connect(postgres_url)
            writing = heartbeat.transaction()
            await writing.start()
            await heartbeat.execute(
                "UPDATE holdfast.jobs SET lease_expires_at = lease_expires_at + 1 WHERE id = 'a'"
            )
            done = [Finished(claim.lease, Completed()) for claim in claims]
            ticking = asyncio.create_task(store.tick("w", done))
            await a_session_waits(heartbeat)
            await writing.commit()
            await heartbeat.close()
            assert (await ticking).refused == ()
            for job_id in ("a", "b"):
                names = [event.name for event in await store.events(job_id)]
                assert names == ["queued", "processing", "complete"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "outcome", [Completed(), Completed("1"), Retry(0, BROKEN)], ids=["plain", "result", "retry"]
)
def test_reports_are_looked_up_by_their_jobs_after_an_idle_vacuum(bench, outcome):
    """None ran then, so the index of running jobs is empty in the statistics, and seems cheap."""
    scans = "SELECT pg_stat_get_xact_numscans('holdfast.jobs_running'::regclass)"

    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(2000))
            async with store._database.connection() as connection:
                await connection.execute("VACUUM ANALYZE holdfast.jobs")
        async with bench.stores(1, connections=1) as (store,):
            claims = (await store.tick("w", claim=ANY)).claims
            async with store._database.connection() as connection:
                before = await connection.fetchval(scans)
            await store.tick("w", [Finished(claim.lease, outcome, 0.1) for claim in claims])
            async with store._database.connection() as connection:
                return await connection.fetchval(scans) - before

    assert asyncio.run(scenario()) == 0
