"""Recording many reports at once."""

import asyncio

import pytest

from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.ports import ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock

NOW = 1_000.0


def completed(path, results, *, deadline_at=None, duration=0.25):
    """Complete one job a result in one tick; return jobs and attempts as they are read back."""

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
