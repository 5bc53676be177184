"""The whole engine: enqueue, work, cancel, retry."""

import asyncio
import os
import signal
from dataclasses import dataclass
from datetime import timedelta

import pytest
from tests.support import isolated
from tests.support.workers import EventLog

from holdfast.bootstrap import Engine, open_store
from holdfast.errors import ErrorCode, Permanent, RetryLater
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.retention import Retention
from holdfast.jobs.declare.validation import ValidationError
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.exceptions import InvalidState, JobFailed, UnknownJob, UnknownKind
from holdfast.jobs.job_events import AttemptFinished
from holdfast.jobs.model import EventName, JobStatus, LastError
from holdfast.jobs.store_port import ClaimRequest, StoreClosed
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RetryPolicy


@dataclass(frozen=True, slots=True)
class Order:
    number: int


@dataclass(frozen=True, slots=True)
class Receipt:
    text: str


def declared():
    """Return an app for one test and the list of calls of its handlers."""
    app = App("invoices")
    seen: list[object] = []

    @app.job()
    async def send(ctx: JobContext, args: Order) -> Receipt:
        seen.append(args)
        if args.number < 0:
            raise Permanent("GW_4XX", "no such order")
        return Receipt(f"order {args.number}")

    @app.job(queue="slow")
    def pack(ctx: JobContext, args: Order) -> int:
        seen.append(args)
        return args.number

    @app.job()
    def odd(ctx: JobContext) -> object:
        return object()

    return app, seen


def use(tmp_path, scenario, **options):
    app, seen = declared()

    async def main():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app], **options) as engine:
            jobs = {name.partition(".")[2]: job for name, job in app.jobs.items()}
            await scenario(engine, jobs, seen)

    asyncio.run(main())


def test_a_job_is_enqueued_and_run_and_its_result_returned(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(3))
        await engine.work(until_idle=True)
        assert await engine.result(handle) == Receipt("order 3")
        assert seen == [Order(3)]

    use(tmp_path, scenario)


def test_a_job_may_be_given_by_name_with_a_mapping_as_arguments(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue("invoices.send", {"number": 4}, owner="ann", priority=2)
        job = await engine.get(handle)
        assert (job.owner, job.priority, job.arguments) == ("ann", 2, '{"number":4}')
        await engine.work(until_idle=True)
        assert seen == [Order(4)]

    use(tmp_path, scenario)


def test_several_arguments_reach_handlers_on_the_loop_in_threads_and_in_children(tmp_path):
    app = App("shop")

    @app.job()
    async def in_loop(ctx: JobContext, order: int, note: str = "none") -> str:
        return f"{order} {note}"

    @app.job()
    def threaded(ctx: JobContext, order: int, *, note: str = "none") -> str:
        return f"{order} {note}"

    async def go():
        url = f"sqlite:///{tmp_path}/work.db"
        async with Engine(url, apps=[app, isolated.values_app]) as engine:
            jobs = [
                await engine.enqueue(in_loop, in_loop.args(7, "fragile")),
                await engine.enqueue(threaded, threaded.args(order=7)),
                await engine.enqueue(isolated.several, isolated.several.args(7, note="x")),
                await engine.enqueue("shop.in_loop", {"order": 8}),
            ]
            await engine.work(until_idle=True)
            return [await engine.result(job) for job in jobs]

    assert asyncio.run(go()) == ["7 fragile", "7 none", "7 x", "8 none"]


def test_many_jobs_are_enqueued_at_once(tmp_path):
    async def scenario(engine, jobs, seen):
        requests = (JobRequest(jobs["send"], Order(n)) for n in range(50))
        handles = await engine.enqueue_many(requests)
        await engine.work(until_idle=True, concurrency=7)
        results = [await engine.result(handle) for handle in handles]
        assert results == [Receipt(f"order {n}") for n in range(50)]

    use(tmp_path, scenario)


def test_only_the_requested_queues_are_served(tmp_path):
    async def scenario(engine, jobs, seen):
        sent = await engine.enqueue(jobs["send"], Order(1))
        packed = await engine.enqueue(jobs["pack"], Order(2))
        await engine.work(until_idle=True, queues="slow", options=WorkerOptions(concurrency=2))
        assert await engine.result(packed) == 2
        assert (await engine.get(sent)).status is JobStatus.QUEUED
        await engine.work(until_idle=True, queues=["default", "slow"])
        assert await engine.result(sent) == Receipt("order 1")

    use(tmp_path, scenario)


def test_a_result_that_cannot_be_stored_fails_the_job_for_good(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["odd"])
        await engine.work(until_idle=True)
        with pytest.raises(JobFailed, match=r"result of invoices\.odd: cannot be stored as JSON"):
            await engine.result(handle)
        job = await engine.get(handle)
        assert (job.error.code, job.attempt_count) == (ErrorCode.VALIDATION_ERROR, 1)

    use(tmp_path, scenario)


def test_an_existing_result_is_used_and_the_handler_not_called(tmp_path):
    async def scenario(engine, jobs, seen):
        asked = []

        @jobs["send"].existing
        async def stored(ctx, args):
            asked.append(ctx.token)
            return Receipt("kept")

        handle = await engine.enqueue(jobs["send"], Order(-1))
        await engine.work(until_idle=True)
        assert (asked, seen) == ([], [Order(-1)])
        await engine.retry(handle)
        await engine.work(until_idle=True)
        assert await engine.result(handle) == Receipt("kept")
        assert (asked, seen) == ([2], [Order(-1)])

    use(tmp_path, scenario)


def test_work_ends_when_it_is_cancelled(tmp_path):
    async def scenario(engine, jobs, seen):
        working = asyncio.create_task(engine.work())
        handle = await engine.enqueue(jobs["send"], Order(1))
        assert await engine.result(handle, timeout=20) == Receipt("order 1")
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    use(tmp_path, scenario)


def test_work_may_end_on_signals(tmp_path):
    async def scenario(engine, jobs, seen):
        working = asyncio.create_task(engine.work(stop_on_signals=True))
        handle = await engine.enqueue(jobs["send"], Order(1))
        await engine.wait(handle, timeout=20)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(working, 20)

    use(tmp_path, scenario)


def test_invalid_arguments_are_refused_before_anything_is_stored(tmp_path):
    async def scenario(engine, jobs, seen):
        stranger = App("stranger").job("send")(lambda_like)
        with pytest.raises(UnknownKind, match=r"declares 'stranger.send' \(declared: invoices."):
            await engine.enqueue(stranger)
        with pytest.raises(ValidationError, match="must be a Order, got 3"):
            await engine.enqueue(jobs["send"], 3)
        with pytest.raises(TypeError, match="dedupkey"):
            await engine.enqueue(jobs["send"], Order(1), dedupkey="x")
        assert (await engine.list()).jobs == ()

    use(tmp_path, scenario)


def lambda_like(ctx): ...


def test_an_uploaded_job_waits_until_it_is_submitted(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(1), uploaded=True)
        await engine.work(until_idle=True)
        assert seen == []
        assert (await engine.submit(handle)).status is JobStatus.QUEUED
        await engine.work(until_idle=True)
        assert seen == [Order(1)]
        with pytest.raises(InvalidState, match="is complete and cannot be submitted"):
            await engine.submit(handle)

    use(tmp_path, scenario)


def test_an_uploaded_job_may_be_rejected(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(1), uploaded=True)
        job = await engine.reject(handle, "NOT_A_RECEIPT", "Only receipts.")
        assert (job.status, job.error.code, job.is_dead_letter) == (
            "failed",
            "NOT_A_RECEIPT",
            False,
        )
        with pytest.raises(InvalidState, match="is failed and cannot be rejected"):
            await engine.reject(handle, "NOT_A_RECEIPT", "Only receipts.")

    use(tmp_path, scenario)


def test_a_waiting_job_is_cancelled_at_once_and_a_finished_one_not_at_all(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(1))
        assert (await engine.cancel(handle)).status is JobStatus.CANCELLED
        done = await engine.enqueue(jobs["send"], Order(2))
        await engine.work(until_idle=True)
        with pytest.raises(InvalidState, match="is complete and cannot be cancelled"):
            await engine.cancel(done)
        assert seen == [Order(2)]

    use(tmp_path, scenario)


def test_a_running_job_is_asked_to_stop(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(1))
        await engine.store.tick("w", claim=ClaimRequest(1, ("default",), {"invoices.send": None}))
        job = await engine.cancel(handle)
        assert (job.status, job.cancel_requested) == (JobStatus.PROCESSING, True)

    use(tmp_path, scenario)


def test_a_failed_job_is_retried_by_hand_with_its_history_kept(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(-1))
        await engine.work(until_idle=True)
        job = await engine.retry(handle)
        assert (job.status, job.attempt_count, job.manual_retry_count) == ("queued", 0, 1)
        assert job.error is None
        await engine.work(until_idle=True)
        assert len(await engine.attempts(handle)) == 2
        names = [event.name for event in await engine.events(handle)]
        assert names.count(EventName.FAILED) == 2

    use(tmp_path, scenario)


def test_only_failed_jobs_are_retried(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(1))
        with pytest.raises(InvalidState, match="is queued and cannot be retried"):
            await engine.retry(handle)

    use(tmp_path, scenario)


def test_a_job_with_a_newer_twin_is_not_retried(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(-1), dedup_key="order")
        await engine.work(until_idle=True)
        twin = await engine.enqueue(jobs["send"], Order(1), dedup_key="order")
        assert twin.created
        with pytest.raises(InvalidState, match="with the dedup key 'order' is unfinished"):
            await engine.retry(handle)

    use(tmp_path, scenario)


def test_a_retry_that_its_app_refuses_changes_nothing(tmp_path):
    async def scenario(engine, jobs, seen):
        @jobs["send"].before_retry
        def has_file(job):
            raise Permanent("SOURCE_GONE", f"the file of {job.id} is gone")

        handle = await engine.enqueue(jobs["send"], Order(-1))
        await engine.work(until_idle=True)
        with pytest.raises(Permanent, match="is gone") as caught:
            await engine.retry(handle)
        assert caught.value.code == "SOURCE_GONE"
        assert (await engine.get(handle)).manual_retry_count == 0

    use(tmp_path, scenario)


def test_a_scheduled_job_is_made_ready_at_once(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(1), run_at=timedelta(hours=1))
        await engine.work(until_idle=True)
        assert seen == []
        job = await engine.retry_now(handle)
        assert (job.status, job.attempt_count, job.manual_retry_count) == ("queued", 0, 0)
        assert (await engine.retry_now(handle)).ready_at == job.ready_at
        await engine.work(until_idle=True)
        assert seen == [Order(1)]
        with pytest.raises(InvalidState, match="is complete and cannot be retried now"):
            await engine.retry_now(handle)

    use(tmp_path, scenario)


def test_a_waiting_retry_that_is_made_ready_is_the_next_attempt(tmp_path):
    app, tries = App("flaky"), []

    @app.job(retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=600)))
    async def flaky(ctx):
        tries.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ConnectionError("not now")

    async def main():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            await scenario(engine)

    async def scenario(engine):
        handle = await engine.enqueue(flaky)
        await engine.work(until_idle=True)
        assert (await engine.get(handle)).retry_after is not None
        working = asyncio.create_task(engine.work(options=WorkerOptions(poll_interval=600)))
        await engine.retry_now(handle)
        job = await engine.wait(handle, timeout=20)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        assert (job.status, job.attempt_count, tries) == (JobStatus.COMPLETE, 2, [1, 2])

    asyncio.run(main())


def test_an_unknown_job_cannot_be_changed(tmp_path):
    async def scenario(engine, jobs, seen):
        for change in (engine.cancel, engine.retry, engine.submit, engine.retry_now):
            for unknown in ("unknown", "a\0b", "\ud800", "", "x" * 10_000):
                with pytest.raises(UnknownJob):
                    await change(unknown)

    use(tmp_path, scenario)


def test_a_job_is_identified_by_its_id_its_handle_or_a_job(tmp_path):
    async def scenario(engine, jobs, seen):
        handle = await engine.enqueue(jobs["send"], Order(-1))
        read = await engine.get(handle)
        assert await engine.get(read) == await engine.get(handle.id) == read
        await engine.work(until_idle=True)
        ((letter,), _) = await engine.dead_letters.list()
        assert (await engine.retry(letter)).status is JobStatus.QUEUED
        assert (await engine.cancel(read)).status is JobStatus.CANCELLED
        assert await engine.events(read) == await engine.events(letter)

    use(tmp_path, scenario)


@pytest.mark.parametrize("wrong", [None, 7, b"id", ["id"], object()])
def test_every_method_refuses_other_types_with_a_type_error(tmp_path, wrong):
    async def scenario(engine, jobs, seen):
        for use_it in (
            engine.get, engine.cancel, engine.retry, engine.retry_now, engine.submit, engine.wait,
            engine.events, engine.attempts, engine.late_results, engine.result,
        ):  # fmt: skip
            with pytest.raises(TypeError, match="a job must be an id, a handle or a Job"):
                await use_it(wrong)
        with pytest.raises(TypeError, match="a job must be an id"):
            await engine.reject(wrong, "NOT_A_RECEIPT", "no")

    use(tmp_path, scenario)


def test_an_engine_notifies_its_listeners(tmp_path):
    events = []

    async def scenario(engine, jobs, seen):
        await engine.enqueue(jobs["send"], Order(1))
        await engine.work(until_idle=True)

    use(tmp_path, scenario, listeners=[events.append])
    assert "AttemptFinished" in {type(event).__name__ for event in events}


def test_listeners_of_the_apps_are_notified_too_and_each_once(tmp_path):
    engines, apps, both = EventLog(), EventLog(), EventLog()
    first = App("first", listeners=[apps, both])
    second = App("second", listeners=[both])

    @first.job()
    async def greet(ctx): ...

    async def main():
        url, heard = f"sqlite:///{tmp_path}/work.db", [engines, both]
        async with Engine(url, apps=[first, second], listeners=heard) as engine:
            await engine.enqueue(greet)
            await engine.work(until_idle=True)

    asyncio.run(main())
    assert [event.kind for event in apps.of(AttemptFinished)] == ["first.greet"]
    assert engines.events == apps.events == both.events


def test_own_codes_reach_the_waiting_job_and_the_failed_one(tmp_path):
    app = App("shop")

    @app.job()
    async def charge(ctx: JobContext, card: str) -> None:
        if card == "busy":
            raise RetryLater(3600, "The bank is busy.", code="BANK_BUSY")
        raise Permanent("CARD_DECLINED", "Ask your bank.")

    async def main():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            waiting, failed = await engine.enqueue(charge, "busy"), await engine.enqueue(charge, "")
            await engine.work(until_idle=True)
            found = await engine.get(waiting)
            assert (found.status, found.error) == (JobStatus.QUEUED, None)
            assert found.last_error == LastError("BANK_BUSY", "The bank is busy.", 1)
            with pytest.raises(JobFailed, match="Ask your bank") as caught:
                await engine.result(failed)
            assert caught.value.code == "CARD_DECLINED"
            assert caught.value.job.last_error.attempt == 1

    asyncio.run(main())


def test_leaving_the_engine_closes_its_store(tmp_path):
    async def main():
        app, _ = declared()
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            pass
        with pytest.raises(StoreClosed):
            await engine.enqueue("invoices.odd")

    asyncio.run(main())


def test_an_engine_that_cannot_declare_its_downstreams_closes_its_store(tmp_path):
    app = App("late")
    engine = StoreEngine(open_store(f"sqlite:///{tmp_path}/work.db"), [app])

    app.job("one", downstream=Downstream("gateway"))(lambda_like)

    async def broken(settings, *, now=None):
        raise RuntimeError("no")

    engine.store.declare_downstreams = broken

    async def main():
        with pytest.raises(RuntimeError, match="no"):
            await engine.__aenter__()
        with pytest.raises(StoreClosed):
            await engine.submit("any")

    asyncio.run(main())


def test_the_kinds_of_an_engine_are_those_of_its_apps(tmp_path):
    app, _ = declared()
    engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
    assert list(engine.kinds) == ["invoices.send", "invoices.pack", "invoices.odd"]


def test_a_job_that_this_engine_runs_is_cancelled_at_once(tmp_path):
    app, started = App("a"), asyncio.Event()

    @app.job()
    async def hang(ctx):
        started.set()
        await asyncio.sleep(600)

    async def go():
        async with Engine(f"sqlite:///{tmp_path}/jobs.db", apps=[app]) as engine:
            job = await engine.enqueue(hang)
            working = asyncio.create_task(engine.work(options=WorkerOptions(extend_every=150)))
            await started.wait()
            await engine.cancel(job)
            assert (await engine.wait(job, timeout=60)).status is JobStatus.CANCELLED
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    asyncio.run(go())


def test_finished_jobs_are_deleted_on_request_and_on_deleted_is_called(tmp_path):
    app, cleared = App("docs"), []

    @app.job(retention=Retention(on_deleted=cleared.append))
    async def work(ctx): ...

    async def scenario():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            done = await engine.enqueue(work)
            await engine.work(until_idle=True)
            waiting = await engine.enqueue(work)
            assert await engine.delete([done, waiting, "missing"]) == (done.id,)
            assert [job.id for job in cleared] == [done.id]
            assert await engine.get(done) is None
            assert await engine.delete(done.id) == ()

    asyncio.run(scenario())
