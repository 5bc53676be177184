"""Queries of jobs: reading, waiting, results of the declared type."""

import asyncio
from dataclasses import dataclass

import pytest
from tests.support.waiting import Calls

from holdfast.bootstrap import Engine
from holdfast.errors import ErrorCode
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.validation import ValidationError
from holdfast.jobs.exceptions import JobFailed, NotReady, UnknownJob, WaitTimeout
from holdfast.jobs.model import Completed, EventName, Failed, Finished, JobError, JobStatus
from holdfast.jobs.store_port import ClaimRequest
from holdfast.jobs.views import JobFilter

app = App("invoices")


@dataclass(frozen=True, slots=True)
class Receipt:
    text: str


@app.job()
async def send(ctx, args: int) -> Receipt:
    return Receipt(str(args))


@app.job()
async def sweep(ctx) -> None: ...


def use(tmp_path, scenario):
    async def main():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            await scenario(engine)

    asyncio.run(main())


async def finish(engine, outcome):
    """Claim the next job as a worker would and report `outcome`."""
    request = ClaimRequest(1, ("default",), dict.fromkeys(engine.kinds))
    (claim,) = (await engine.store.tick("w", claim=request)).claims
    await engine.store.tick("w", [Finished(claim.lease, outcome)])


FAILURE = Failed(JobError(ErrorCode.GW_4XX, "bad mapping"))


def test_a_job_is_read_by_its_id_or_its_handle(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1, owner="ann")
        assert (await engine.get(handle)) == (await engine.get(handle.id))
        assert (await engine.get(handle)).owner == "ann"
        assert await engine.get("unknown") is None

    use(tmp_path, scenario)


def test_jobs_are_listed_newest_first_and_filtered(tmp_path):
    async def scenario(engine):
        handles = [await engine.enqueue(send, n, owner=f"o{n % 2}") for n in range(4)]
        page = await engine.list(limit=3)
        assert [job.id for job in page.jobs] == [handle.id for handle in handles[:0:-1]]
        rest = await engine.list(cursor=page.next_cursor, limit=3)
        assert [job.id for job in rest.jobs] == [handles[0].id]
        mine = await engine.list(JobFilter(owner="o1"))
        assert len(mine.jobs) == 2

    use(tmp_path, scenario)


def test_history_attempts_and_counters_can_be_read(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        await finish(engine, Completed('{"text":"1"}'))
        events = [event.name for event in await engine.events(handle)]
        assert events == [EventName.QUEUED, EventName.PROCESSING, EventName.COMPLETE]
        assert [attempt.number for attempt in await engine.attempts(handle)] == [1]
        assert await engine.late_results(handle) == ()
        (lane,) = (await engine.stats()).lanes
        assert lane.complete == 1

    use(tmp_path, scenario)


def test_a_finished_job_is_not_waited_for(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        await finish(engine, Completed('{"text":"1"}'))
        assert (await engine.wait(handle, timeout=0)).status is JobStatus.COMPLETE

    use(tmp_path, scenario)


@pytest.mark.parametrize("outcome", [Completed(), FAILURE], ids=["complete", "failed"])
def test_a_wait_ends_with_the_change_and_not_with_a_poll(tmp_path, outcome):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        wait_for_changes, waits = engine.store.wait_for_changes, asyncio.Event()

        async def never_by_itself(sequence, _):
            waits.set()
            return await wait_for_changes(sequence, 3600)

        engine.store.wait_for_changes = never_by_itself
        waiter = asyncio.create_task(engine.wait(handle))
        await waits.wait()
        await finish(engine, outcome)
        assert (await waiter).status.finished

    use(tmp_path, scenario)


def test_a_cancelled_job_ends_the_wait(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        waits = Calls(engine.store, "wait_for_changes")
        waiter = asyncio.create_task(engine.wait(handle, timeout=30))
        await waits.more()
        await engine.cancel(handle)
        assert (await waiter).status is JobStatus.CANCELLED

    use(tmp_path, scenario)


def test_a_wait_timeout_reports_the_status(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        with pytest.raises(WaitTimeout, match=r"is still queued after 0\.05 s"):
            await engine.wait(handle, timeout=0.05)
        assert (await engine.get(handle)).status is JobStatus.QUEUED

    use(tmp_path, scenario)


def test_a_wait_does_not_read_for_every_change_of_other_jobs(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        reads = 0
        get = engine.store.get

        async def counting(job_id, **options):
            nonlocal reads
            reads += 1
            return await get(job_id, **options)

        engine.store.get = counting
        waiter = asyncio.create_task(engine.wait(handle, timeout=0.4))
        changes = 0
        while not waiter.done():
            await engine.enqueue(sweep)
            changes += 1
        with pytest.raises(WaitTimeout):
            await waiter
        assert reads <= 25
        assert changes > 0

    use(tmp_path, scenario)


def test_waiting_for_an_unknown_job_is_refused(tmp_path):
    async def scenario(engine):
        for question in (engine.wait("unknown"), engine.result("unknown")):
            with pytest.raises(UnknownJob, match="there is no job 'unknown'"):
                await question

    use(tmp_path, scenario)


def test_a_result_has_the_type_that_the_handler_declares(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        waiter = asyncio.create_task(engine.result(handle, timeout=30))
        await finish(engine, Completed('{"text":"1"}'))
        assert await waiter == Receipt("1")
        assert await engine.result(handle.id) == Receipt("1")

    use(tmp_path, scenario)


def test_a_result_of_none_is_none(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(sweep)
        await finish(engine, Completed())
        assert await engine.result(handle) is None

    use(tmp_path, scenario)


def test_a_result_of_an_undeclared_kind_is_plain_json(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        await finish(engine, Completed('{"text":"1"}'))
        async with Engine(f"sqlite:///{tmp_path}/work.db") as bare:
            assert await bare.result(handle) == {"text": "1"}

    use(tmp_path, scenario)


def test_a_result_of_another_type_is_refused(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        await finish(engine, Completed('{"text":1}'))
        with pytest.raises(ValidationError, match=r"result of invoices\.send: text: expected str"):
            await engine.result(handle)

    use(tmp_path, scenario)


def test_the_error_for_a_missing_result_has_the_reason(tmp_path):
    async def scenario(engine):
        handle = await engine.enqueue(send, 1)
        with pytest.raises(NotReady, match="is queued and has no result yet"):
            await engine.result(handle)
        await finish(engine, FAILURE)
        with pytest.raises(JobFailed, match="GW_4XX: bad mapping") as caught:
            await engine.result(handle)
        assert caught.value.code is ErrorCode.GW_4XX

    use(tmp_path, scenario)


@pytest.mark.parametrize("limit", [-1, 2**70, 1.5, True])
def test_an_invalid_page_size_is_refused(tmp_path, limit):
    async def scenario(engine):
        with pytest.raises((ValueError, TypeError), match="limit must be"):
            await engine.list(limit=limit)
        with pytest.raises((ValueError, TypeError), match="limit must be"):
            await engine.dead_letters.list(limit=limit)

    use(tmp_path, scenario)
