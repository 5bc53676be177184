"""The pipeline: every attempt ends in one report, or in none if its lease is lost."""

import asyncio
from random import Random

import pytest
from tests.support.workers import claim

from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import ErrorCode, RetryLater
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.declare.context import CancelReason, JobCancelled
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.downstreams.record import (
    Admission,
    CallReport,
    RefusedPermit,
    TrialRetry,
    Verdict,
)
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    DeadLetterReason,
    Failed,
    Released,
    Retry,
)
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.jobs.worker.executor import Executor
from holdfast.jobs.worker.run import Run
from holdfast.jobs.worker.signals import stop_on_signals
from holdfast.jobs.worker.threads import HandlerThreads
from holdfast.resilience.breaker.transitions import Permit
from holdfast.testing import VirtualClock
from holdfast.time_limit import cancelled, remaining

PERMIT = {"downstream": "gw", "permit": Permit(4, 2), "admission": Admission.TRIAL}


class Unavailable(Exception):
    status_code = 503
    retry_after = 90


class NoStore:
    """A store that records late results and has no earlier attempts."""

    def __init__(self):
        self.late = []
        self.away = False

    async def attempts(self, job_id):
        raise StoreUnavailable("away")

    async def store_late_result(self, job_id, token, result):
        if self.away:
            raise StoreUnavailable("away")
        self.late.append((job_id, token, result))
        return True


class Bench:
    """An executor and its events."""

    def __init__(self, clock=None):
        self.clock = clock or VirtualClock()
        self.store = NoStore()
        self.ended = []
        self.interrupted = []
        self.executor = Executor(
            self.store, clock=self.clock, rng=Random(1), threads=HandlerThreads("t"), children=None,
            payload_limit=PAYLOAD_LIMIT,
            on_ended=self.ended.append, on_interrupt=lambda: self.interrupted.append(1),
        )  # fmt: skip

    def run(self, handler, *, takes="ctx", existing=None, timeout=None, **fields):
        app = App("a")
        job = app.job(name="work", existing=existing, timeout=timeout, downstream=Downstream("gw"))(
            handler
        )
        return Run(claim(**fields), job.kind, None, self.clock, 300.0)

    def execute(self, run):
        async def go():
            run.task = asyncio.current_task()
            await self.executor.execute(run)

        self.clock.run(go())
        assert self.ended == [run]
        return run.report


async def fine(ctx):
    return {"a": 1}


def plainly(function):
    """Return a plain function that returns a coroutine."""

    def plain(ctx):
        return function(ctx)

    return plain


def test_a_result_is_encoded_and_counts_as_a_success_of_the_downstream():
    report = Bench().execute(Bench().run(fine, **PERMIT))
    assert report.outcome == Completed('{"a":1}')
    assert report.report.verdict is Verdict.SUCCESS
    assert report.report.permit == Permit(4, 2)


def test_a_handler_that_returns_none_leaves_no_result():
    async def work(ctx):
        pass

    assert Bench().execute(Bench().run(work)).outcome == Completed()


def test_its_duration_is_by_the_injected_clock():
    async def slow(ctx):
        await asyncio.sleep(7)

    bench = Bench()
    assert bench.execute(bench.run(slow)).duration == 7


def test_a_refused_admission_fails_without_a_call():
    async def never(ctx):
        raise AssertionError("called")

    bench = Bench()
    report = bench.execute(bench.run(never, downstream="gw", admission=Admission.REFUSED))
    assert report.outcome.error.code is ErrorCode.CIRCUIT_OPEN
    assert report.outcome.dead_letter is DeadLetterReason.REFUSED
    assert report.report is None


def test_a_refused_admission_fails_with_the_last_error_of_its_downstream():
    bench = Bench()
    permit = RefusedPermit(4, code=ErrorCode.GW_5XX)
    run = bench.run(fine, downstream="gw", admission=Admission.REFUSED, permit=permit)
    report = bench.execute(run)
    assert report.outcome.error.code is ErrorCode.GW_5XX
    assert "paused" in report.outcome.error.message
    assert report.outcome.dead_letter is DeadLetterReason.REFUSED
    assert report.report is None


def test_a_failed_trial_says_which_job_waits_for_the_breaker_to_close():
    async def down(ctx):
        bench.clock.advance(2)
        raise ConnectionError("refused")

    bench = Bench()
    report = bench.execute(bench.run(down, attempt=2, max_attempts=3, **PERMIT))
    assert isinstance(report.outcome, Retry)
    retry = TrialRetry("j1", 7, 1002.0 + report.outcome.after)
    failed = CallReport("gw", Permit(4, 2), Verdict.FAILURE, ErrorCode.GW_UNAVAILABLE, retry)
    assert report.report == failed


def test_a_failed_trial_that_was_asked_to_wait_says_until_when():
    async def busy(ctx):
        bench.clock.advance(2)
        raise Unavailable

    bench = Bench()
    report = bench.execute(bench.run(busy, attempt=2, max_attempts=3, **PERMIT))
    assert report.report.verdict is Verdict.FAILURE
    assert report.report.retry.not_before == 1002.0 + 90


def test_a_trial_that_wants_to_run_later_does_not_wait_for_the_breaker():
    async def later(ctx):
        raise RetryLater(90)

    bench = Bench()
    report = bench.execute(bench.run(later, attempt=2, max_attempts=3, **PERMIT))
    assert (report.report.verdict, report.report.retry) == (Verdict.NEITHER, None)
    assert report.outcome.after == 90


def test_a_trial_that_fails_with_the_last_attempt_ends_its_job():
    async def down(ctx):
        raise ConnectionError("refused")

    bench = Bench()
    report = bench.execute(bench.run(down, attempt=3, max_attempts=3, **PERMIT))
    assert report.outcome.dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED
    assert (report.report.verdict, report.report.retry) == (Verdict.FAILURE, None)


def test_a_trial_that_runs_into_its_time_counts_too():
    async def hang(ctx): ...

    bench = Bench()
    run = bench.run(hang, timeout=5, attempt=3, max_attempts=3, **PERMIT)
    run.stop_reason = CancelReason.TIMEOUT
    report = bench.execute(run)
    assert report.outcome.dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED
    assert report.report.verdict is Verdict.FAILURE


def test_a_job_whose_arguments_do_not_fit_waits_and_gives_the_trial_back():
    async def typed(ctx, args: int): ...

    bench = Bench()
    report = bench.execute(bench.run(typed, arguments='"x"', **PERMIT))
    assert report.outcome.error.code is ErrorCode.ARGUMENTS_MISMATCH
    assert (report.outcome.counted, report.outcome.after > 5) == (False, True)
    assert report.report.verdict is Verdict.NEITHER


def test_an_answer_that_cannot_be_stored_is_a_failure():
    async def odd(ctx):
        return object()

    bench = Bench()
    assert bench.execute(bench.run(odd)).outcome.error.code is ErrorCode.VALIDATION_ERROR


def test_a_status_of_the_downstream_is_kept_with_the_attempt():
    class Answer(Exception):
        status_code = 503

    async def busy(ctx):
        raise Answer

    bench = Bench()
    report = bench.execute(bench.run(busy, **PERMIT))
    assert report.meta == '{"http_status": 503}'
    assert isinstance(report.outcome, Retry)
    assert report.report.verdict is Verdict.FAILURE


def test_a_status_that_the_handler_noted_is_kept_also_of_a_success():
    async def called(ctx):
        ctx.http_status = 200

    bench = Bench()
    report = bench.execute(bench.run(called))
    assert isinstance(report.outcome, Completed)
    assert report.meta == '{"http_status": 200}'


def test_a_run_that_was_stopped_before_it_started_is_released():
    bench = Bench()
    run = bench.run(fine, **PERMIT)
    run.stop_reason = CancelReason.SHUTDOWN
    report = bench.execute(run)
    assert report.outcome == Released(reason="shutdown")
    assert report.report.verdict is Verdict.NEITHER


def test_a_handler_that_raises_job_cancelled_is_cancelled():
    async def quits(ctx):
        raise JobCancelled(ctx.job_id, CancelReason.REQUESTED)

    bench = Bench()
    assert bench.execute(bench.run(quits)).outcome == Cancelled()


def test_history_that_cannot_be_read_allows_the_retry():
    async def fail(ctx):
        raise RuntimeError("?")

    bench = Bench()
    report = bench.execute(bench.run(fail, attempt=2, max_attempts=9))
    assert isinstance(report.outcome, Retry)


@pytest.mark.parametrize("has_result", [True, False])
def test_under_a_lost_lease_only_an_answer_is_reported(has_result):
    async def work(ctx):
        if not has_result:
            raise ConnectionError
        return 1

    bench = Bench()
    run = bench.run(work)
    run.lost = True
    assert (bench.execute(run) is not None) is has_result


@pytest.mark.parametrize("stopping", [True, False])
def test_a_cancelled_task_releases_its_job_only_if_the_worker_stops(stopping):
    """A handler that cancels its own task would otherwise run for ever, and count no attempt."""

    async def forever(ctx):
        await asyncio.sleep(600)

    bench = Bench()
    run = bench.run(forever)

    async def go():
        run.task = asyncio.create_task(bench.executor.execute(run))
        await asyncio.sleep(1)
        run.task.cancel()
        # The worker learns of it after the run, if all tasks were cancelled at once.
        bench.executor.stopping = stopping
        await run.task
        assert run.task.cancelling() == 0

    bench.clock.run(go())
    if stopping:
        assert run.report.outcome == Released(reason="shutdown")
    else:
        assert run.report.outcome.counted
        assert "CancelledError" in run.report.outcome.error.message


def test_an_interrupt_is_passed_on_and_the_attempt_counts():
    async def interrupted(ctx):
        raise KeyboardInterrupt

    bench = Bench()
    report = bench.execute(bench.run(interrupted))
    assert (report.outcome.error.code, report.outcome.counted) == (ErrorCode.UNKNOWN, True)
    assert bench.interrupted == [1]


def test_an_interrupt_where_no_signal_can_raise_one_is_the_handlers_own():
    async def interrupted(ctx):
        raise KeyboardInterrupt

    def blocking(ctx):
        raise KeyboardInterrupt

    bench = Bench()
    report = bench.execute(bench.run(blocking))
    assert (report.outcome.error.code, report.outcome.counted) == (ErrorCode.UNKNOWN, True)
    assert bench.interrupted == []

    async def go():
        bench.ended.clear()
        run = bench.run(interrupted)
        with stop_on_signals(lambda: None):
            await bench.executor.execute(run)
        return run.report.outcome

    assert asyncio.run(go()).error.code is ErrorCode.UNKNOWN
    assert bench.interrupted == []


@pytest.mark.parametrize("blocking", [False, True])
def test_a_handler_that_raises_generator_exit_has_failed(blocking):
    async def leave(ctx):
        raise GeneratorExit

    def block(ctx):
        raise GeneratorExit

    bench = Bench()
    report = bench.execute(bench.run(block if blocking else leave))
    assert report.outcome.error.code is ErrorCode.UNKNOWN
    assert "GeneratorExit" in report.outcome.error.message


def test_a_discarded_run_reports_nothing():
    async def hang(ctx):
        await Never()

    class Never:
        def __await__(self):
            yield

    bench = Bench()
    run = bench.run(hang)
    execution = bench.executor.execute(run)
    execution.send(None)
    execution.close()
    assert run.report is None


def test_a_coroutine_that_a_plain_function_returns_is_awaited_and_can_be_cut():
    async def inner(ctx):
        return "awaited"

    bench = Bench()
    assert bench.execute(bench.run(plainly(inner))).outcome == Completed('"awaited"')

    async def found(ctx, args):
        return "found"

    def found_plainly(ctx, args):
        return found(ctx, args)

    bench = Bench()
    run = bench.run(inner, existing=found_plainly)
    assert bench.execute(run).outcome == Completed('"found"')

    async def hang(ctx):
        await asyncio.sleep(60)

    async def cut():
        run.task = asyncio.create_task(bench.executor.execute(run))
        while not run.in_loop:
            await asyncio.sleep(0.001)
        run.stop_reason = CancelReason.SHUTDOWN
        run.task.cancel()
        await run.task

    bench = Bench(SYSTEM_CLOCK)
    run = bench.run(plainly(hang))
    assert not run.in_loop
    asyncio.run(cut())
    assert run.report.outcome == Released(reason="shutdown")


def test_a_stop_during_an_async_hook_prevents_the_handler():
    async def there(ctx, args):
        run.stop_reason = CancelReason.SHUTDOWN

    async def never(ctx):
        raise AssertionError("called")

    bench = Bench()
    run = bench.run(never, existing=there)
    assert bench.execute(run).outcome == Released(reason="shutdown")


@pytest.mark.parametrize("deadline_at, outcome", [(None, Retry), (1000.5, Failed)])
def test_an_abandoned_run_is_judged_by_what_cut_it(deadline_at, outcome):
    bench = Bench()
    run = bench.run(fine, timeout=2.0, deadline_at=deadline_at)
    run.stop_reason = CancelReason.TIMEOUT
    bench.clock.advance(2.5)
    bench.executor.abandon(run)
    assert isinstance(run.report.outcome, outcome)
    assert run.report.outcome.error.code is ErrorCode.TIMEOUT
    assert run.report.duration == 2.5


@pytest.mark.parametrize("away", [False, True])
def test_the_late_answer_of_an_abandoned_run_is_kept_after_a_deadline(away, caplog):
    bench = Bench()
    bench.store.away = away
    run = bench.run(fine, deadline_at=1000.5)
    run.abandoned = True
    assert bench.execute(run) is None
    assert bench.store.late == ([] if away else [("j1", 7, '{"a":1}')])
    assert ("could not be stored" in caplog.text) is away


def test_the_late_answer_of_an_abandoned_run_without_a_deadline_is_dropped():
    bench = Bench()
    run = bench.run(fine, timeout=1.0)
    run.abandoned = True
    assert bench.execute(run) is None
    assert bench.store.late == []


def test_the_sooner_of_timeout_and_deadline_ends_a_run():
    bench = Bench()
    by_timeout = bench.run(fine, timeout=5.0, deadline_at=1100.0)
    assert (by_timeout.ends_at, by_timeout.by_deadline) == (5.0, False)
    by_deadline = bench.run(fine, timeout=5.0, deadline_at=1003.0)
    assert (by_deadline.ends_at, by_deadline.by_deadline) == (3.0, True)
    past = bench.run(fine, deadline_at=900.0)
    assert past.ends_at == 0.0
    assert bench.run(fine).ends_at is None
    assert "work" in repr(past)


def test_the_timeout_can_be_restarted_but_a_deadline_stays():
    bench = Bench()
    run = bench.run(fine, timeout=5.0, deadline_at=1007.0)
    run.count_from(1.0)
    assert (run.ends_at, run.by_deadline) == (6.0, False)
    run.count_from(4.0)
    assert (run.ends_at, run.by_deadline) == (7.0, True)


@pytest.mark.parametrize("blocking", [False, True])
def test_a_handler_can_ask_for_its_time_without_its_context(blocking):
    seen = []

    def handler(ctx):
        seen.append((remaining(), cancelled()))
        ctx.request_cancel(CancelReason.REQUESTED)
        seen.append((remaining(), cancelled()))

    async def handler_async(ctx):
        handler(ctx)

    bench = Bench()
    bench.execute(bench.run(handler if blocking else handler_async, timeout=9))
    assert seen == [(9, False), (9, True)]
