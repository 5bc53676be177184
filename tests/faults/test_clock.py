"""Workers whose clocks are an hour off: on PostgreSQL all times are the server's."""

import asyncio

import pytest
from tests.faults import jobs as faults
from tests.faults.conftest import Fleet
from tests.faults.jobs import ledger
from tests.faults.test_guarantees import finished, new
from tests.support.waiting import until

from holdfast.jobs.model import AttemptOutcome, JobStatus

HOUR = 3600.0


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_a_workers_wrong_clock_changes_nothing(postgres_url, tmp_path, skew):
    fleet = Fleet(postgres_url, tmp_path)

    async def go():
        async with fleet.open() as store:
            # One leads, both work; both run before the first job's time begins.
            for _ in range(2):
                fleet.start(skew=skew, lease_seconds=3.0)
            began = await store.ping()
            run_at, deadline_at = began + 1.5, began + 4.0
            await store.enqueue(
                [
                    *new(faults.effect, "long", arguments=4.0),  # longer than its lease
                    *new(faults.quick, "planned", run_at=run_at, deadline_at=began + HOUR / 2),
                    *new(faults.later, "delayed", arguments=1.0),
                    *new(faults.slow, "overdue", arguments=60.0, deadline_at=deadline_at),
                ]
            )
            jobs = {
                name: await until(lambda name=name: finished(store, name))
                for name in ("long", "planned", "delayed", "overdue")
            }
            ended = await store.ping()

            # No live lease was taken, and no expired one was waited for.
            assert (jobs["long"].status, jobs["long"].attempt_count) == (JobStatus.COMPLETE, 1)
            assert [line[3] for line in ledger(fleet.ledger) if line[0] == "long"] == [
                "start",
                "end",
            ]
            assert jobs["planned"].status is JobStatus.COMPLETE
            assert run_at <= jobs["planned"].started_at <= ended
            first, second = await store.attempts("delayed")
            assert (first.outcome, second.outcome) == (
                AttemptOutcome.RETRY,
                AttemptOutcome.COMPLETE,
            )
            assert first.finished_at + 1.0 <= second.started_at <= ended
            assert (jobs["overdue"].status, jobs["overdue"].error.code) == ("failed", "TIMEOUT")
            assert deadline_at - 0.1 <= jobs["overdue"].finished_at <= ended
            for job in jobs.values():
                times = [job.created_at, job.started_at, job.last_attempt_at, job.finished_at]
                assert times == sorted(times)
                assert began <= times[0] <= times[-1] <= ended

    try:
        asyncio.run(go())
    finally:
        fleet.close()
