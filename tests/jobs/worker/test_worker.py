"""The worker: claims, reports, stopping, and outages of its store."""

import asyncio
import gc
import io
import logging
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.support.waiting import Calls, until
from tests.support.workers import QUICK, SOON, rig

from holdfast.errors import ErrorCode, Permanent, RetryLater
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.downstreams.record import HoldMode
from holdfast.jobs.job_events import (
    AttemptAbandoned,
    AttemptFinished,
    CircuitMoved,
    JobClaimed,
    StoreBack,
    StoreLost,
    WorkerStarted,
    WorkerStopped,
    WorkerStuck,
)
from holdfast.jobs.model import AttemptOutcome, DeadLetterReason
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

AT_ONCE = RetryPolicy(max_attempts=3, backoff=Exponential(base=0.0, jitter=0.0))


class Unreachable:
    """A store wrapper that can simulate an outage."""

    def __init__(self, store):
        self._store = store
        self.away = False
        self.ticks = 0
        self.lost_answer = False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def tick(self, *args, **kwargs):
        self.ticks += 1
        if self.away:
            raise StoreUnavailable("gone fishing")
        result = await self._store.tick(*args, **kwargs)
        if self.lost_answer:
            self.lost_answer = False
            raise StoreUnavailable("the answer was lost")
        return result

    async def progress(self, *args, **kwargs):
        if self.away:
            raise StoreUnavailable("gone fishing")
        return await self._store.progress(*args, **kwargs)


class Silent(Unreachable):
    """A store that does not answer the next `silent` ticks that report something."""

    def __init__(self, store, silent):
        super().__init__(store)
        self.silent = silent
        self.asked = asyncio.Event()

    async def tick(self, worker_id, finished=(), claim=None, **kwargs):
        if finished and self.silent:
            self.silent -= 1
            self.asked.set()
            await asyncio.Event().wait()
        return await self._store.tick(worker_id, finished, claim, **kwargs)


def test_it_runs_async_and_blocking_handlers_and_keeps_what_they_return(tmp_path):
    app = App("a")
    main = threading.get_ident()

    @app.job()
    async def double(ctx, args: int) -> int:
        assert threading.get_ident() == main
        return args * 2

    @app.job()
    def treble(ctx, args: int) -> int:
        assert threading.get_ident() != main
        return args * 3

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(double, "d", arguments="21")
            await it.enqueue(treble, "t", arguments="5")
            await it.run()
            assert (await it.store.get("d")).result == "42"
            assert (await it.store.get("t")).result == "15"
            assert it.told.of(WorkerStarted)
            assert it.told.of(WorkerStopped)[0].unreported == 0
            assert {event.job_id for event in it.told.of(JobClaimed)} == {"d", "t"}
            finished = it.told.of(AttemptFinished)
            assert [event.outcome for event in finished] == [AttemptOutcome.COMPLETE] * 2

    asyncio.run(go())


def test_it_never_runs_more_at_once_than_it_may_and_claims_no_more(tmp_path):
    app = App("a")
    alive, most = 0, 0

    @app.job()
    async def count(ctx):
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        await asyncio.sleep(0.002)
        alive -= 1

    async def go():
        async with rig(tmp_path, app, concurrency=3) as it:
            await it.enqueue(count, *(f"j{n}" for n in range(20)))
            async with it.running():
                claimed = 0
                while not await it.store.get("j19") or claimed < 20:
                    stats = (await it.store.stats()).lanes[0]
                    assert stats.processing <= 3
                    claimed = stats.complete
            assert most == 3

    asyncio.run(go())


def test_a_thousand_jobs_share_few_transactions(tmp_path):
    app = App("a")

    @app.job()
    async def noop(ctx): ...

    async def go():
        async with rig(tmp_path, app, concurrency=100) as it:
            store = Unreachable(it.store)
            it.store = store
            worker = it.another(replace(QUICK, concurrency=100))
            await it.enqueue(noop, *(f"j{n}" for n in range(1000)))
            await worker.run(until_idle=True)
            assert (await store.stats()).lanes[0].complete == 1000
            assert store.ticks < 30

    asyncio.run(go())


def test_an_idle_worker_starts_a_new_job_at_once(tmp_path):
    app = App("a")
    started = asyncio.Event()

    @app.job()
    async def ping(ctx):
        started.set()

    async def go():
        async with rig(tmp_path, app, poll_interval=3600) as it:
            waits = Calls(it.store, "wait_for_work")
            async with it.running():
                await waits.more()
                await it.enqueue(ping, "p")
                async with asyncio.timeout(SOON):
                    await started.wait()

    asyncio.run(go())


def test_an_idle_worker_does_not_spin(tmp_path):
    app = App("a")

    @app.job()
    async def later(ctx): ...

    async def go():
        async with rig(tmp_path, app) as it:
            it.store = Unreachable(it.store)
            worker = it.another(replace(QUICK, poll_interval=0.1))
            await it.enqueue(later, "l", run_at=await it.store.ping() + 3600)
            async with it.running(worker):
                await until(lambda: it.store.ticks >= 2)
                ticks, began = it.store.ticks, time.monotonic()
                await until(lambda: it.store.ticks >= ticks + 20)
                # Each interval is slightly shorter or longer than requested, and a few end early:
                # what the worker does when it starts wakes it as well, on a busy machine until now.
                assert time.monotonic() - began > 15 * 0.09

    asyncio.run(go())


def test_a_failure_is_retried_by_policy_and_then_a_dead_letter(tmp_path):
    app = App("a")

    @app.job(retry=AT_ONCE)
    async def fail(ctx):
        raise ConnectionError("refused")

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(fail, "f")
            await it.run()
            job = await it.store.get("f")
            assert (job.status, job.attempt_count) == ("failed", 3)
            assert job.error.code is ErrorCode.GW_UNAVAILABLE
            assert job.dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED
            assert await it.outcomes("f") == ["retry", "retry", "failed"]

    asyncio.run(go())


def test_an_unknown_error_is_retried_as_the_policy_says(tmp_path):
    app = App("a")

    @app.job(retry=replace(AT_ONCE, max_attempts=3))
    async def fail(ctx):
        raise RuntimeError("who knows")

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(fail, "f")
            await it.run()
            assert await it.outcomes("f") == ["retry", "retry", "failed"]
            job = await it.store.get("f")
            assert job.error.message == "RuntimeError: who knows"
            assert job.error.code is ErrorCode.UNKNOWN

    asyncio.run(go())


def test_a_code_of_one_retry_has_it_after_other_failures_too(tmp_path):
    app = App("a")
    errors = [ConnectionError("x"), BlockingIOError(11, "busy"), BlockingIOError(11, "busy")]

    @app.job(retry=replace(AT_ONCE, max_attempts=9), retry_once=[ErrorCode.IO_ERROR])
    async def fail(ctx):
        error = errors[ctx.attempt - 1]
        raise Permanent("IO_ERROR") if error is None else error

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(fail, "f")
            await it.run()
            codes = [a.error.code for a in await it.store.attempts("f")]
            assert codes == [ErrorCode.GW_UNAVAILABLE, ErrorCode.IO_ERROR, ErrorCode.IO_ERROR]
            assert (await it.store.get("f")).dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED

    asyncio.run(go())


@pytest.mark.parametrize(
    "error, outcome, code",
    [
        (Permanent("PARSE_ERROR", "no"), "failed", ErrorCode.PARSE_ERROR),
        (RetryLater(3600, "not yet"), "retry", ErrorCode.GW_UNAVAILABLE),
        (SystemExit(3), "retry", ErrorCode.UNKNOWN),
        (asyncio.CancelledError(), "retry", ErrorCode.UNKNOWN),
    ],
)
@pytest.mark.parametrize("blocking", [False, True])
def test_every_exception_of_a_handler_is_the_attempts_outcome(
    tmp_path, error, outcome, code, blocking
):
    app = App("a")

    @app.job(name="fail", retry=RetryPolicy(backoff=Exponential(base=60)))
    async def fail(ctx):
        raise error

    @app.job(name="block", retry=RetryPolicy(backoff=Exponential(base=60)))
    def block(ctx):
        raise error

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(block if blocking else fail, "f")
            await it.run()
            (attempt,) = await it.store.attempts("f")
            assert (attempt.outcome, attempt.error.code) == (outcome, code)

    asyncio.run(go())


def test_retry_later_waits_for_its_delay(tmp_path):
    app = App("a")

    @app.job(retry=RetryPolicy(backoff=Exponential(base=60)))
    async def fail(ctx):
        raise RetryLater(0.5)

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(fail, "f")
            await it.run()
            (attempt,) = await it.store.attempts("f")
            assert attempt.retry_after == 0.5

    asyncio.run(go())


def test_a_waiting_retry_takes_no_slot(tmp_path):
    app = App("a")

    @app.job(retry=RetryPolicy(backoff=Exponential(base=45)))
    async def fail(ctx):
        raise ConnectionError

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app, concurrency=3) as it:
            await it.enqueue(fail, "f1", "f2", "f3")
            await it.enqueue(work, *(f"w{n}" for n in range(30)))
            await it.run()
            assert it.worker.running == 0
            assert [await it.status(f"f{n}") for n in (1, 2, 3)] == ["queued"] * 3
            assert (await it.store.stats()).outcomes[0].count == 30

    asyncio.run(go())


def test_until_idle_leaves_what_waits_for_its_time(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(work, "later", run_at=await it.store.ping() + 3600)
            await it.enqueue(work, "now")
            await it.run()
            assert (await it.status("now"), await it.status("later")) == ("complete", "queued")

    asyncio.run(go())


def test_a_job_that_becomes_due_is_run_without_a_hint(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app, poll_interval=30) as it:
            await it.enqueue(work, "soon", run_at=await it.store.ping() + 0.1)
            async with it.running():
                await it.until("soon", "complete")

    asyncio.run(go())


def test_an_attempt_is_cut_by_its_timeout_and_may_clean_up(tmp_path):
    app = App("a")
    cleaned = []

    @app.job(timeout=0.05, retry=RetryPolicy(max_attempts=1))
    async def hang(ctx):
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(ctx.cancel_reason)

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(hang, "h")
            await it.run()
            job = await it.store.get("h")
            assert job.error.code is ErrorCode.TIMEOUT
            assert "0.05 s" in job.error.message
            assert cleaned == ["timeout"]

    asyncio.run(go())


def test_a_result_that_arrives_despite_the_timeout_is_accepted(tmp_path):
    app = App("a")

    @app.job(timeout=0.05)
    async def late(ctx) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "done all the same"

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(late, "l")
            await it.run()
            assert (await it.store.get("l")).result == '"done all the same"'

    asyncio.run(go())


def test_a_thread_that_does_not_stop_is_reported_and_keeps_its_slot(tmp_path):
    app = App("a")
    let_go = threading.Event()

    # Long enough for its thread to start on a busy machine.
    @app.job(timeout=1.0, retry=RetryPolicy(max_attempts=1))
    def stuck(ctx) -> str:
        let_go.wait(SOON)
        return "dropped"

    async def go():
        async with rig(tmp_path, app, concurrency=2) as it:
            await it.enqueue(stuck, "s")
            async with it.running():
                await it.until("s", "failed")
                assert it.told.of(AttemptAbandoned)
                assert it.worker.running == 1
                let_go.set()
                while it.worker.running:
                    await asyncio.sleep(0.01)
            job = await it.store.get("s")
            assert (job.status, job.result, job.error.code) == ("failed", None, "TIMEOUT")

    asyncio.run(go())


def test_a_deadline_cuts_the_attempt_and_its_late_result_is_kept(tmp_path):
    app = App("a")
    let_go = threading.Event()

    @app.job()
    def slow(ctx) -> str:
        let_go.wait(SOON)
        return "late"

    async def go():
        async with rig(tmp_path, app) as it:
            async with it.running():
                # Long enough that a worker which runs already has surely begun the attempt.
                await it.enqueue(slow, "s", deadline_at=await it.store.ping() + 2)
                await it.until("s", "failed")
                job = await it.store.get("s")
                assert (job.error.code, job.dead_letter) == ("TIMEOUT", "deadline")
                let_go.set()
                async with asyncio.timeout(SOON):
                    while not await it.store.late_results("s"):
                        await asyncio.sleep(0.01)
            (late,) = await it.store.late_results("s")
            assert late.result == '"late"'
            assert (await it.status("s")) == "failed"

    asyncio.run(go())


def test_a_cancelled_job_is_stopped_at_the_next_heartbeat(tmp_path):
    app = App("a")
    reasons = []

    @app.job()
    async def wait(ctx):
        try:
            await asyncio.sleep(60)
        finally:
            reasons.append(ctx.cancel_reason)

    @app.job()
    def block(ctx):
        while not ctx.cancel_requested:
            threading.Event().wait(0.01)
        ctx.raise_if_cancelled()

    async def go():
        async with rig(tmp_path, app, lease_seconds=5, extend_every=0.05) as it:
            await it.enqueue(wait, "w")
            await it.enqueue(block, "b")
            async with it.running():
                await it.told.wait(JobClaimed, count=2)
                for job_id in ("w", "b"):
                    assert await it.store.cancel(job_id) == "requested"
                await it.until("w", "cancelled")
                await it.until("b", "cancelled")
            assert reasons == ["requested"]

    asyncio.run(go())


def test_stop_finishes_what_runs(tmp_path):
    app = App("a")
    let_go = asyncio.Event()

    @app.job()
    async def work(ctx):
        await let_go.wait()

    async def go():
        async with rig(tmp_path, app, concurrency=1) as it:
            await it.enqueue(work, "one", "two")
            async with it.running() as task:
                await it.told.wait(JobClaimed)
                it.worker.stop()
                for _ in range(100):  # the worker has noticed that it must stop
                    await asyncio.sleep(0)
                assert not task.done()
                let_go.set()
                await task
            assert sorted([await it.status("one"), await it.status("two")]) == [
                "complete", "queued",
            ]  # fmt: skip

    asyncio.run(go())


@pytest.mark.parametrize("stops", [1, 2])
def test_stop_releases_jobs_that_do_not_end_in_time(tmp_path, stops):
    app = App("a")

    @app.job()
    async def forever(ctx):
        await asyncio.sleep(600)

    @app.job()
    async def stubborn(ctx):
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                if ctx.attempt > 9:
                    raise

    @app.job()
    def blocked(ctx):
        threading.Event().wait(3)

    async def go():
        limit = 0.3 if stops == 1 else 600
        async with rig(tmp_path, app, shutdown_seconds=limit) as it:
            for kind in (forever, stubborn, blocked):
                await it.enqueue(kind, kind.kind.name)
            task = asyncio.create_task(it.worker.run())
            await it.told.wait(JobClaimed, count=3)
            for _ in range(stops):
                it.worker.stop()
            async with asyncio.timeout(SOON):
                await task
            for kind in (forever, stubborn, blocked):
                job = await it.store.get(kind.kind.name)
                assert (job.status, job.attempt_count) == ("queued", 0)
                assert await it.outcomes(job.id) == ["released"]
            for leftover in asyncio.all_tasks() - {asyncio.current_task()}:
                leftover.get_coro().close()
                leftover.cancel()

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(go())
    finally:
        loop.close()


def test_cancelling_run_releases_all_jobs(tmp_path):
    app = App("a")

    @app.job()
    async def forever(ctx):
        await asyncio.sleep(600)

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(forever, "f")
            task = asyncio.create_task(it.worker.run())
            await it.told.wait(JobClaimed)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await it.outcomes("f") == ["released"]

    asyncio.run(go())


class Slow(Unreachable):
    """A store whose answers to claims are delayed."""

    def __init__(self, store):
        super().__init__(store)
        self.claimed = asyncio.Event()
        self.answers = asyncio.Event()

    async def tick(self, *args, **kwargs):
        result = await super().tick(*args, **kwargs)
        if result.claims:
            self.claimed.set()
            await self.answers.wait()
        return result


def test_jobs_claimed_during_the_cancellation_are_released(tmp_path):
    app, runs = App("a"), []

    @app.job(retry=RetryPolicy(max_attempts=1))
    async def work(ctx):
        runs.append(ctx.job_id)

    async def go():
        async with rig(tmp_path, app) as it:
            it.store = store = Slow(it.store)
            worker = it.another(QUICK)
            await it.enqueue(work, "w")
            task = asyncio.create_task(worker.run())
            await store.claimed.wait()
            task.cancel()
            await asyncio.sleep(0)
            store.answers.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            job = await it.store.get("w")
            assert (job.status, job.attempt_count, runs) == ("queued", 0, [])
            assert await it.outcomes("w") == ["released"]
            assert (await it.store.stats()).totals.get("refused_writes", 0) == 0

    asyncio.run(go())


def test_a_cancelled_worker_does_not_wait_for_ever_for_an_answer(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app) as it:
            it.store = store = Slow(it.store)
            worker = it.another(QUICK)
            await it.enqueue(work, "w")
            task = asyncio.create_task(worker.run())
            await store.claimed.wait()
            task.cancel()
            async with asyncio.timeout(SOON):
                with pytest.raises(asyncio.CancelledError):
                    await task
            # What the unanswered tick had claimed was looked for, and released.
            job = await it.store.get("w")
            assert (job.status, job.attempt_count) == ("queued", 0)

    asyncio.run(go())


def test_a_worker_that_was_stopped_before_it_ran_claims_nothing(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(work, "w")
            it.worker.stop()
            await it.worker.run()
            assert await it.status("w") == "queued"

    asyncio.run(go())


def test_a_keyboard_interrupt_inside_a_handler_stops_the_worker_and_counts(tmp_path):
    app = App("a")

    @app.job()
    async def interrupted(ctx):
        raise KeyboardInterrupt

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(interrupted, "i")
            async with asyncio.timeout(SOON):
                await it.worker.run()
            assert await it.outcomes("i") == ["retry"]

    asyncio.run(go())


def test_a_blocking_handler_that_raises_keyboard_interrupt_does_not_stop_the_worker(tmp_path):
    app = App("a")

    @app.job(retry=replace(AT_ONCE, max_attempts=2))
    def interrupted(ctx):
        raise KeyboardInterrupt

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(interrupted, "i")
            await it.run()
            assert await it.outcomes("i") == ["retry", "failed"]

    asyncio.run(go())


def test_a_worker_without_free_slots_reports_it_and_ends_until_idle(tmp_path, caplog):
    app = App("a")
    let_go = threading.Event()

    @app.job(timeout=0.05, retry=RetryPolicy(max_attempts=1))
    def stuck(ctx):
        let_go.wait(SOON)

    async def go():
        async with rig(tmp_path, app, concurrency=2) as it:
            await it.enqueue(stuck, "s", "t", "u")
            try:
                await it.run()
                assert not it.worker.reachable
            finally:
                let_go.set()
            assert [event.slots for event in it.told.of(WorkerStuck)] == [2]
            assert sum("all 2 slots" in record.message for record in caplog.records) == 1
            assert await it.status("u") == "queued"

    asyncio.run(go())


def test_a_worker_that_was_stuck_goes_on_once_a_slot_is_free(tmp_path):
    app = App("a")
    let_go = threading.Event()

    @app.job(timeout=0.05, retry=RetryPolicy(max_attempts=1))
    def stuck(ctx, args: bool):
        if args:
            let_go.wait(SOON)

    async def go():
        async with rig(tmp_path, app, concurrency=1) as it:
            await it.enqueue(stuck, "s", arguments="true")
            await it.enqueue(stuck, "t", arguments="false")
            async with it.running():
                await it.told.wait(WorkerStuck)
                let_go.set()
                await it.until("t", "complete")
                assert it.worker.reachable

    asyncio.run(go())


def test_it_waits_for_an_unavailable_store_and_loses_nothing(tmp_path, caplog):
    app = App("a")
    let_go = asyncio.Event()

    @app.job()
    async def work(ctx):
        await let_go.wait()

    async def go():
        async with rig(tmp_path, app) as it:
            it.store = store = Unreachable(it.store)
            worker = it.another(QUICK)
            await it.enqueue(work, "one", "two")
            async with it.running(worker):
                await it.told.wait(JobClaimed, count=2)
                store.away = True
                let_go.set()
                await it.told.wait(StoreLost)
                assert not worker.reachable
                while store.ticks < 6:
                    await asyncio.sleep(0.01)
                store.away = False
                await it.told.wait(StoreBack)
                await it.until("one", "complete")
                await it.until("two", "complete")
            assert worker.reachable

    with caplog.at_level(logging.INFO, "holdfast.worker"):
        asyncio.run(go())
    messages = [record.message for record in caplog.records]
    assert len([line for line in messages if "does not answer" in line]) == 1
    assert len([line for line in messages if "answers again" in line]) == 1


def test_a_report_whose_answer_was_lost_is_sent_again_without_harm(tmp_path):
    app = App("a")
    runs = []

    @app.job()
    async def work(ctx):
        runs.append(ctx.job_id)
        store.lost_answer = True

    store = None

    async def go():
        nonlocal store
        async with rig(tmp_path, app) as it:
            it.store = store = Unreachable(it.store)
            worker = it.another(QUICK)
            await it.enqueue(work, "w")
            await worker.run(until_idle=True)
            assert await it.status("w") == "complete"
            assert runs == ["w"]

    asyncio.run(go())


def test_it_stops_reporting_when_its_shutdown_time_is_over(tmp_path, caplog):
    app = App("a")
    let_go = asyncio.Event()

    @app.job()
    async def work(ctx):
        await let_go.wait()

    async def go():
        async with rig(tmp_path, app) as it:
            it.store = store = Unreachable(it.store)
            worker = it.another(replace(QUICK, shutdown_seconds=0.1))
            await it.enqueue(work, "w")
            task = asyncio.create_task(worker.run())
            await it.told.wait(JobClaimed)
            store.away = True
            let_go.set()
            await it.told.wait(StoreLost)
            worker.stop()
            async with asyncio.timeout(SOON):
                await task
            assert it.told.of(WorkerStopped)[0].unreported == 1
            assert await it.status("w") == "processing"

    asyncio.run(go())
    assert "could not be reported" in caplog.text


def test_a_store_that_does_not_answer_a_report_holds_up_a_stop_no_longer_than_its_limit(tmp_path):
    app = App("a")
    let_go, reasons = asyncio.Event(), []

    @app.job()
    async def work(ctx):
        if ctx.attempt == 1:
            await let_go.wait()

    @app.job()
    async def long(ctx):
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(600)
            finally:
                reasons.append(ctx.cancel_reason)

    async def go():
        options = replace(QUICK, lease_seconds=1.0, extend_every=0.3, maintenance=None)
        async with rig(tmp_path, app) as it:
            plain, it.store = it.store, Silent(it.store, 1000)
            worker = it.another(replace(options, shutdown_seconds=1.0, cleanup_seconds=0.5))
            await it.enqueue(work, "w")
            await it.enqueue(long, "l")
            task = asyncio.create_task(worker.run())
            await it.told.wait(JobClaimed, count=2)
            worker.stop()
            let_go.set()
            await it.store.asked.wait()
            async with asyncio.timeout(SOON):
                await task
            assert reasons == ["shutdown"]
            assert it.told.of(WorkerStopped)[0].unreported == 2
            assert [await it.status("w"), await it.status("l")] == ["processing", "processing"]

            # Nothing is lost: the leases expire.
            it.store = plain
            async with it.running(it.another(QUICK)):
                await it.until("w", "complete")
                await it.until("l", "complete")

    asyncio.run(go())


@pytest.mark.parametrize("stops", [1, 2])
def test_a_report_that_was_not_answered_is_sent_again_at_the_end_of_a_stop(tmp_path, stops, caplog):
    app = App("a")
    let_go = asyncio.Event()

    @app.job()
    async def work(ctx):
        await let_go.wait()

    @app.job()
    async def long(ctx):
        await asyncio.sleep(600)

    async def go():
        async with rig(tmp_path, app) as it:
            it.store = Silent(it.store, 1)
            limit = 0.5 if stops == 1 else 600
            worker = it.another(replace(QUICK, shutdown_seconds=limit))
            await it.enqueue(work, "w")
            await it.enqueue(long, "l")
            task = asyncio.create_task(worker.run())
            await it.told.wait(JobClaimed, count=2)
            worker.stop()
            let_go.set()
            await it.store.asked.wait()
            if stops == 2:
                worker.stop()
            async with asyncio.timeout(SOON):
                await task
            assert it.told.of(WorkerStopped)[0].unreported == 0
            assert [await it.status("w"), await it.status("l")] == ["complete", "queued"]

    asyncio.run(go())
    assert "was refused" not in caplog.text


def test_a_report_that_the_store_cannot_take_does_not_block_the_others(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx, args: str) -> str:
        return args

    class Picky(Unreachable):
        async def tick(self, worker_id, finished=(), claim=None, **kwargs):
            if any('"bad"' in str(getattr(f.outcome, "result", "")) for f in finished):
                raise ValueError("cannot store this")
            return await self._store.tick(worker_id, finished, claim, **kwargs)

    async def go():
        async with rig(tmp_path, app) as it:
            it.store = Picky(it.store)
            worker = it.another(QUICK)
            await it.enqueue(work, "good", arguments='"fine"')
            await it.enqueue(work, "bad", arguments='"bad"')
            await worker.run(until_idle=True)
            assert await it.status("good") == "complete"
            job = await it.store.get("bad")
            assert (job.status, job.error.code) == ("failed", "UNKNOWN")

    asyncio.run(go())


def test_a_failing_downstream_is_held_and_uses_no_attempts(tmp_path):
    app = App("a")
    calls = []

    @app.job(
        retry=replace(AT_ONCE, max_attempts=5),
        downstream=Downstream("gw", breaker=BreakerPolicy(consecutive_failures=3, open_for=600)),
    )
    async def call(ctx):
        calls.append(ctx.job_id)
        raise ConnectionError

    async def go():
        async with rig(tmp_path, app, concurrency=1) as it:
            await it.enqueue(call, *(f"j{n}" for n in range(10)))
            await it.run()
            assert len(calls) == 3
            assert it.told.of(CircuitMoved)[0].state == "OPEN"
            jobs = [await it.store.get(f"j{n}") for n in range(10)]
            assert sum(job.attempt_count for job in jobs) == 3
            assert all(job.status == "queued" and job.held for job in jobs)

    asyncio.run(go())


def test_errors_of_the_caller_do_not_open_a_downstream(tmp_path):
    app = App("a")

    class Mine(Exception):
        pass

    breaker = BreakerPolicy(consecutive_failures=1, open_for=600, exclude=(Mine,))

    @app.job(downstream=Downstream("gw", breaker=breaker))
    async def call(ctx, args: str):
        raise Permanent("GW_4XX") if args == "4xx" else Mine("excluded")

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(call, "a", arguments='"4xx"')
            await it.enqueue(call, "b", arguments='"mine"')
            await it.run()
            assert (await it.store.downstream("gw")).circuit.state == "CLOSED"

    asyncio.run(go())


def test_fail_fast_fails_without_a_call(tmp_path):
    app = App("a")
    calls = []

    @app.job(
        retry=replace(AT_ONCE, max_attempts=1),
        downstream=Downstream(
            "gw", breaker=BreakerPolicy(consecutive_failures=1, open_for=600),
            mode=HoldMode.FAIL_FAST,
        ),
    )  # fmt: skip
    async def call(ctx):
        calls.append(ctx.job_id)
        raise ConnectionError

    async def go():
        async with rig(tmp_path, app, concurrency=1) as it:
            await it.enqueue(call, "first")
            await it.enqueue(call, "second")
            await it.run()
            assert len(calls) == 1
            refused = await it.store.get("second" if calls == ["first"] else "first")
            assert refused.error.code is ErrorCode.GW_UNAVAILABLE
            assert refused.dead_letter is DeadLetterReason.REFUSED

    asyncio.run(go())


def test_a_result_that_an_earlier_attempt_left_is_taken(tmp_path):
    app = App("a")
    calls = []

    @app.job(retry=AT_ONCE)
    async def make(ctx) -> str:
        calls.append("make")
        raise ConnectionError

    @make.existing
    def there(ctx, args):
        calls.append("ask")
        return "left by the first"

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(make, "m")
            await it.run()
            assert calls == ["make", "ask"]
            assert (await it.store.get("m")).result == '"left by the first"'

    asyncio.run(go())


def test_progress_is_stored_while_the_job_runs(tmp_path):
    app = App("a")
    let_go = asyncio.Event()

    @app.job()
    async def slow(ctx):
        await ctx.progress(0.25, "reading")
        await let_go.wait()

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(slow, "s")
            async with it.running():
                async with asyncio.timeout(SOON):
                    while (await it.store.get("s")).progress is None:
                        await asyncio.sleep(0.01)
                job = await it.store.get("s")
                assert (job.progress, job.progress_note) == (0.25, "reading")
                let_go.set()
            assert "progress" in [event.name for event in await it.store.events("s")]

    asyncio.run(go())


def test_it_serves_only_its_queues(tmp_path):
    app = App("a")

    @app.job(queue="here")
    async def here(ctx): ...

    @app.job(queue="there")
    async def there(ctx): ...

    async def go():
        async with rig(tmp_path, app, queues=("here",)) as it:
            await it.enqueue(here, "h")
            await it.enqueue(there, "t")
            await it.run()
            assert (await it.status("h"), await it.status("t")) == ("complete", "queued")

    asyncio.run(go())


def test_it_runs_once_at_a_time(tmp_path):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    async def go():
        async with rig(tmp_path, app) as it, it.running():
            await it.told.wait(WorkerStarted)
            with pytest.raises(RuntimeError, match="already running"):
                await it.worker.run()

    asyncio.run(go())


def test_each_worker_has_an_id_of_its_own_whether_or_not_it_has_a_name(tmp_path):
    app = App("a")

    async def go():
        async with rig(tmp_path, app) as it:
            assert it.worker.worker_id != it.another(QUICK).worker_id
            named = [it.another(WorkerOptions(worker_id="w7")).worker_id for _ in range(2)]
            assert named[0] != named[1]
            assert all(each.startswith("w7:") for each in named)

    asyncio.run(go())


def test_a_queue_that_no_kind_is_in_is_pointed_out(tmp_path, caplog):
    app = App("a")

    @app.job(queue="mail")
    async def send(ctx): ...

    async def go():
        async with rig(tmp_path, app) as it:
            it.another(replace(QUICK, queues=("mail",)))
            assert not caplog.records
            it.another(replace(QUICK, queues=("mail", "mial")))
            assert "no known kind of job uses queue ['mial']" in caplog.text

    asyncio.run(go())


def test_a_worker_that_does_not_run_is_not_notified_of_cancellations(tmp_path):
    async def go():
        async with rig(tmp_path, App("a")) as it:
            it.worker.cancel_job("j")
            assert it.worker.running == 0

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["in_loop", "in_thread"])
def test_local_variables_of_a_failed_handler_are_freed_without_the_garbage_collector(
    tmp_path, kind, monkeypatch
):
    app, kept = App("a"), []
    # pytest's own handlers keep the records, and with them the exceptions.
    monkeypatch.setattr(logging.getLogger("holdfast.worker"), "propagate", False)
    logged = logging.StreamHandler(io.StringIO())
    monkeypatch.setattr(logging.getLogger("holdfast.worker"), "handlers", [logged])

    class Large:
        pass

    def fail():
        large = Large()
        kept.append(weakref.ref(large))
        raise Permanent(ErrorCode.PARSE_ERROR, "not this one")

    @app.job()
    async def in_loop(ctx):
        fail()

    @app.job()
    def in_thread(ctx):
        fail()

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue({"in_loop": in_loop, "in_thread": in_thread}[kind], "f")
            await it.run()
            assert await it.status("f") == "failed"
            assert it.told.of(AttemptFinished)[0].error is not None
            assert "in fail" in logged.stream.getvalue()
            it.told.events.clear()
            assert [each() for each in kept] == [None]

    gc.collect()
    gc.disable()
    try:
        asyncio.run(go())
    finally:
        gc.enable()
