"""What maintenance costs."""

import asyncio

import apsw

from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ClaimRequest, RetentionRule
from holdfast.store.sqlite.maintenance import delete_finished
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.store.sqlite.transaction import Transaction

JOBS = 600


async def with_finished_jobs(path, lanes):
    """Make a database whose finished jobs are spread over so many downstreams."""
    async with SQLiteStore(path) as store:
        await store.enqueue(
            [NewJob(f"job-{n}", "work", downstream=f"host:{n % lanes}") for n in range(JOBS)],
            now=10.0,
        )
        request = ClaimRequest(JOBS, ("default",), {"work": None})
        claims = (await store.tick("w", claim=request, now=10.0)).claims
        assert len(claims) == JOBS
        finished = [Finished(claim.lease, Completed()) for claim in claims]
        await store.tick("w", finished, now=10.0)


def steps_of(path, rule):
    """Return the steps of SQLite's virtual machine that a round without anything due takes."""
    steps = []
    connection = apsw.Connection(str(path))
    connection.trace_v2(
        apsw.SQLITE_TRACE_PROFILE,
        lambda seen: steps.append(seen["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
    )
    assert delete_finished(Transaction(connection, 20.0, clock_offset=0.0), rule, 500) == ()
    connection.close()
    return sum(steps)


def test_retention_by_age_costs_the_same_with_any_number_of_lanes(tmp_path):
    rule = RetentionRule("work", JobStatus.COMPLETE, max_age=3600.0)
    few, many = (tmp_path / f"{lanes}.db" for lanes in (10, JOBS))
    asyncio.run(with_finished_jobs(few, 10))
    asyncio.run(with_finished_jobs(many, JOBS))
    assert 0 < steps_of(many, rule) <= 1.2 * steps_of(few, rule)


def test_retention_by_number_reads_each_lane_once(tmp_path):
    rule = RetentionRule("work", JobStatus.COMPLETE, max_age=3600.0, max_count=100_000)
    path = tmp_path / "many.db"
    asyncio.run(with_finished_jobs(path, JOBS))
    by_age = RetentionRule("work", JobStatus.COMPLETE, max_age=3600.0)
    assert steps_of(path, rule) - steps_of(path, by_age) < 50 * JOBS
