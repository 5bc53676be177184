"""Reports that are not simple: repeated, mixed, from a worker that this process does not know."""

import asyncio

from tests.store.postgres.conftest import ANY, BROKEN, jobs

from holdfast.jobs.model import (
    Cancelled,
    Completed,
    Failed,
    Finished,
    JobStatus,
    Released,
    Retry,
)
from holdfast.jobs.ports import Refusal


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


def test_a_report_about_nobody_is_refused(play):
    async def scenario(store):
        await store.enqueue(jobs(1))
        (claim,) = (await store.tick("w", claim=ANY)).claims
        await store.cancel(claim.job_id)
        lease = type(claim.lease)("nobody", 1, "w", 0.0)
        result = await store.tick(
            "w", [Finished(lease, Completed()), Finished(claim.lease, Retry(0, BROKEN))]
        )
        assert [refused.lease.job_id for refused in result.refused] == ["nobody"]
        assert [overruled.status for overruled in result.overruled] == [JobStatus.CANCELLED]

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
