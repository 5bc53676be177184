"""Recording many reports at once."""

import asyncio

import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import CallReport, DownstreamSettings, Verdict
from holdfast.jobs.model import (
    AttemptOutcome,
    Completed,
    EventName,
    Finished,
    JobError,
    JobStatus,
    NewJob,
    Retry,
)
from holdfast.jobs.store_port import ClaimRequest, Refusal, Refused
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.policy import BreakerPolicy
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock

NOW = 1_000.0


def completed(path, results, *, deadline_at=None, duration=0.25):
    """Complete one job per result in one tick; return jobs and attempts as they are read back."""

    async def main():
        async with SQLiteStore(path, clock=VirtualClock()) as store:
            names = [f"job-{n}" for n in range(len(results))]
            new = [NewJob(name, "work", deadline_at=deadline_at) for name in names]
            await store.enqueue(new, now=NOW)
            request = ClaimRequest(len(names), ("default",), {"work": None})
            claims = (await store.tick("w", (), request, now=NOW)).claims
            by_name = dict(zip(names, results, strict=True))
            reports = [
                Finished(claim.lease, Completed(by_name[claim.job_id]), duration, None, '{"a":"ü"}')
                for claim in claims
            ]
            result = await store.tick("w", reports, now=NOW + 2)
            assert result.refused == result.overruled == ()
            jobs = [await store.get(name, now=NOW + 2) for name in names]
            return jobs, [(await store.attempts(name))[0] for name in names]

    return asyncio.run(main())


@pytest.mark.parametrize(
    "results",
    [
        ["null"] * 3,
        [None] * 3,
        ["1", "2", '"drei ü"'],
        ["null", None, "null"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("deadline_at", [None, NOW + 100])
def test_every_job_of_a_batch_gets_its_own_result(tmp_path, results, deadline_at):
    jobs, attempts = completed(tmp_path / "a.db", results, deadline_at=deadline_at)
    assert [job.result for job in jobs] == results
    assert {(job.status, job.finished_at, job.worker_id) for job in jobs} == {
        (JobStatus.COMPLETE, NOW + 2, None)
    }
    assert {(each.number, each.token, each.duration, each.meta) for each in attempts} == {
        (1, 1, 0.25, '{"a":"ü"}')
    }


def test_a_report_without_a_duration_is_timed_by_the_store(tmp_path):
    _, attempts = completed(tmp_path / "a.db", ["null"], duration=None)
    assert attempts[0].duration == 2.0


def test_a_result_that_cannot_be_stored_as_it_is_does_not_refuse_the_batch(tmp_path):
    jobs, _ = completed(tmp_path / "a.db", ['"\ud800"', '"b"'])
    assert [job.result for job in jobs] == ['"?"', '"b"']


DOWN = JobError(ErrorCode.GW_UNAVAILABLE, "still down")


def retried(path, outcome, *, cancel=False):
    """Report `outcome` of a job's last attempt; return its store's answers afterwards."""

    async def main():
        async with SQLiteStore(path, clock=VirtualClock()) as store:
            await store.enqueue([NewJob("a", "work", max_attempts=1)], now=NOW)
            request = ClaimRequest(1, ("default",), {"work": None})
            (claim,) = (await store.tick("w", (), request, now=NOW + 1)).claims
            if cancel:
                await store.cancel("a", now=NOW + 1)
            result = await store.tick("w", [Finished(claim.lease, outcome, 0.5)], now=NOW + 2)
            job = await store.get("a", now=NOW + 2)
            (attempt,) = await store.attempts("a")
            names = [event.name for event in await store.events("a")]
            stats = await store.stats()
            (again,) = (await store.tick("w", (), request, now=NOW + 9)).claims or (None,)
            return result, job, attempt, names, stats, again

    return asyncio.run(main())


@pytest.mark.parametrize("after", [0.0, 5.0])
def test_a_retry_that_is_not_counted_is_taken_off_the_attempts(tmp_path, after):
    result, job, attempt, names, stats, again = retried(
        tmp_path / "a.db", Retry(after, DOWN, counted=False)
    )
    assert result.refused == result.overruled == ()
    assert (job.status, job.attempt_count, job.ready_at) == (JobStatus.QUEUED, 0, NOW + 2 + after)
    assert (job.error, job.dead_letter, job.worker_id) == (None, None, None)
    assert (attempt.number, attempt.outcome, attempt.error) == (1, AttemptOutcome.RETRY, DOWN)
    assert attempt.retry_after == after
    assert names == [EventName.QUEUED, EventName.PROCESSING, EventName.RETRY]
    assert stats.dead_letters == 0
    (lane,) = stats.lanes
    assert (lane.ready, lane.scheduled, lane.failed) == ((1, 0, 0) if after == 0 else (0, 1, 0))
    assert (again.attempt, again.lease.token) == (1, 2)


def test_a_retry_that_is_counted_ends_with_the_last_attempt(tmp_path):
    result, job, _, _, stats, again = retried(tmp_path / "a.db", Retry(0.0, DOWN))
    assert [overruled.status for overruled in result.overruled] == [JobStatus.FAILED]
    assert (job.status, stats.dead_letters, again) == (JobStatus.FAILED, 1, None)


def test_a_retry_that_is_not_counted_yields_to_a_request_to_cancel(tmp_path):
    result, job, attempt, _, _, again = retried(
        tmp_path / "a.db", Retry(0.0, DOWN, counted=False), cancel=True
    )
    assert [overruled.status for overruled in result.overruled] == [JobStatus.CANCELLED]
    assert (job.status, attempt.outcome) == (JobStatus.CANCELLED, AttemptOutcome.CANCELLED)
    assert again is None


REQUEST = ClaimRequest(5, ("default",), {"work": None}, 10.0)


def on_a_store(path, scenario):
    async def main():
        async with SQLiteStore(path, clock=VirtualClock()) as store:
            return await scenario(store)

    return asyncio.run(main())


async def claim(store, *names, now, **fields):
    await store.enqueue([NewJob(name, "work", **fields) for name in names], now=now)
    claims = (await store.tick("w", (), REQUEST, now=now)).claims
    assert [each.job_id for each in claims] == list(names)
    return claims


async def statuses(store, *names):
    return [(await store.get(name)).status for name in names]


@pytest.mark.parametrize("results", [["1", "1", "1"], ["1", "2", "3"]])
def test_a_zombie_among_others_is_refused_alone(tmp_path, results):
    async def scenario(store):
        (zombie,) = await claim(store, "a", now=NOW)
        others = await claim(store, "b", "c", now=NOW + 5)
        assert (await store.rescue(now=NOW + 11)).requeued == ("a",)
        reports = [
            Finished(run.lease, Completed(result))
            for run, result in zip((zombie, *others), results, strict=True)
        ]
        result = await store.tick("w", reports, now=NOW + 12)
        assert result.refused == (Refused(zombie.lease, Refusal.STALE),)
        assert await statuses(store, "a", "b", "c") == ["queued", "complete", "complete"]
        stats = await store.stats()
        assert stats.totals["refused_writes"] == 1
        assert [(lane.ready, lane.processing, lane.complete) for lane in stats.lanes] == [(1, 0, 2)]
        assert len(await store.attempts("a")) == 1

    on_a_store(tmp_path / "a.db", scenario)


def test_a_report_that_comes_twice_in_one_tick_is_taken_once(tmp_path):
    async def scenario(store):
        (run,) = await claim(store, "a", now=NOW)
        twice = [Finished(run.lease, Completed("1")), Finished(run.lease, Completed("2"))]
        result = await store.tick("w", twice, now=NOW + 1)
        assert result.refused == (Refused(run.lease, Refusal.STALE),)
        assert (await store.get("a")).result == "1"
        again = await store.tick("w", twice[:1], now=NOW + 2)
        assert [refused.lease for refused in again.refused] == [run.lease]
        assert len(await store.attempts("a")) == 1

    on_a_store(tmp_path / "a.db", scenario)


def test_a_claim_can_be_completed_through_another_store(tmp_path):
    async def scenario(store):
        claims = await claim(store, "a", "b", now=NOW)
        async with SQLiteStore(tmp_path / "a.db", clock=VirtualClock()) as other:
            reports = [Finished(run.lease, Completed(), 0.5) for run in claims]
            assert (await other.tick("w", reports[:1], now=NOW + 1)).refused == ()
        assert (await store.tick("w", reports[1:], now=NOW + 1)).refused == ()
        assert await statuses(store, "a", "b") == ["complete", "complete"]
        first, second = [(await store.attempts(name))[0] for name in ("a", "b")]
        assert (first.worker_id, first.started_at, first.duration) == ("w", NOW, 0.5)
        assert (second.worker_id, second.started_at, second.duration) == ("w", NOW, 0.5)

    on_a_store(tmp_path / "a.db", scenario)


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [("fsf", CircuitState.CLOSED), ("sff", CircuitState.OPEN), ("ffs", CircuitState.OPEN)],
)
def test_calls_are_judged_in_the_order_of_their_reports(tmp_path, verdicts, state):
    async def scenario(store):
        policy = BreakerPolicy(consecutive_failures=2, open_for=60)
        await store.declare_downstreams([DownstreamSettings("gateway", policy)], now=NOW)
        claims = await claim(store, "a", "b", "c", now=NOW, downstream="gateway")
        outcomes = {
            "f": (Retry(60.0, DOWN), Verdict.FAILURE),
            "s": (Completed(), Verdict.SUCCESS),
        }
        reports = []
        for run, letter in zip(claims, verdicts, strict=True):
            outcome, verdict = outcomes[letter]
            report = CallReport("gateway", run.permit, verdict)
            reports.append(Finished(run.lease, outcome, 0.1, report))
        await store.tick("w", reports, now=NOW + 1)
        assert (await store.downstream("gateway")).circuit.state is state

    on_a_store(tmp_path / "a.db", scenario)
