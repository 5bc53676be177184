"""Reports: all in one tick, an unstorable one separately, and the events for listeners."""

import asyncio
import logging

import pytest
from tests.support.workers import EventLog, claim

from holdfast.errors import ErrorCode
from holdfast.jobs.declare.app import App
from holdfast.jobs.downstreams.record import DownstreamRecord, DownstreamSettings
from holdfast.jobs.job_events import (
    AttemptFinished,
    CircuitMoved,
    JobClaimed,
    JobOverruled,
    JobsTimedOut,
    WriteRefused,
)
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    Failed,
    Finished,
    JobError,
    JobStatus,
    Released,
    Retry,
)
from holdfast.jobs.store_port import (
    ClaimRequest,
    FailedJob,
    Overruled,
    Refusal,
    Refused,
    StoreBusy,
    StoreClosed,
    StoreDiskError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TickResult,
)
from holdfast.jobs.worker.failure import of_code
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.report import Reporter
from holdfast.jobs.worker.run import Run
from holdfast.testing import VirtualClock

ERROR = JobError(ErrorCode.GW_5XX, "no")
REQUEST = ClaimRequest(1, ("default",), {})
OPTIONS = WorkerOptions()


def ended(job_id, outcome=None):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    run = Run(claim(job_id=job_id), work.kind, None, VirtualClock(), 1.0)
    run.report = Finished(run.claim.lease, outcome or Completed(), 2.0)
    return run


def result(**fields):
    given = {
        "claims": (), "refused": (), "overruled": (), "moved": (), "timed_out": (),
        "wake_at": None, "mark": 0, "now": 100.0,
    }  # fmt: skip
    return TickResult(**{**given, **fields})


class Scripted:
    def __init__(self, answer=None, indigestible=(), error=None):
        self.answer = answer or result()
        self.indigestible = indigestible
        self.error = error or ValueError("cannot")
        self.ticks = []

    async def progress(self, lease, progress):
        return True

    async def tick(self, worker_id, finished=(), request=None):
        self.ticks.append(([report.lease.job_id for report in finished], request))
        if isinstance(self.answer, Exception):
            raise self.answer
        for report in finished:
            job_id = report.lease.job_id
            hard = isinstance(report.outcome, Completed) or job_id == "worst"
            if hard and job_id in self.indigestible:
                raise self.error
        return self.answer


def tick(store, runs=(), request=REQUEST, log=None, options=OPTIONS):
    reporter = Reporter(store, "w", [log] if log else [], options)
    return asyncio.run(reporter.tick(list(runs), request))


def test_only_accepted_reports_are_published_as_events():
    good, stale, overruled = ended("good"), ended("stale"), ended("over", Retry(1.0, ERROR))
    record = DownstreamRecord(DownstreamSettings("gw"))
    store, log = Scripted(result(
        claims=(claim(job_id="new", created_at=990.0),),
        refused=(Refused(stale.claim.lease, Refusal.STALE),),
        overruled=(Overruled(overruled.claim.lease, JobStatus.CANCELLED),),
        moved=(record,), timed_out=(FailedJob("late"),),
    )), EventLog()  # fmt: skip
    tick(store, [good, stale, overruled], log=log)
    assert log.of(JobClaimed) == [JobClaimed("k", "new", 1, 10.0)]
    assert [event.job_id for event in log.of(AttemptFinished)] == ["good", "over"]
    assert log.of(WriteRefused) == [WriteRefused("a.work", "stale", 7, Refusal.STALE)]
    assert log.of(JobOverruled) == [JobOverruled("a.work", "over", JobStatus.CANCELLED)]
    assert log.of(CircuitMoved) == [CircuitMoved("gw", "CLOSED", None)]
    assert log.of(JobsTimedOut)[0].job_ids == ("late",)


class TickLog(EventLog):
    def __init__(self):
        super().__init__()
        self.ticks = []

    def tick_stored(self, tick):
        self.ticks.append(tick)


def test_a_listener_of_ticks_gets_accepted_reports_and_claims_at_once():
    good, stale, spent = ended("good"), ended("stale"), ended("spent", Retry(1.0, ERROR))
    new = claim(job_id="new")
    store, log = Scripted(result(
        claims=(new,), refused=(Refused(stale.claim.lease, Refusal.STALE),),
        overruled=(Overruled(spent.claim.lease, JobStatus.FAILED),),
    )), TickLog()  # fmt: skip
    tick(store, [good, stale, spent], log=log)
    (stored,) = log.ticks
    assert stored.claims == (new,)
    assert stored.reports == [("a.work", good.report), ("a.work", spent.report)]
    assert stored.failed == ["GW_5XX"]
    assert log.of(JobClaimed) == log.of(AttemptFinished) == []
    assert len(log.of(WriteRefused)) == len(log.of(JobOverruled)) == 1


@pytest.mark.parametrize(
    "outcome, name, code",
    [
        (Completed(), "complete", None),
        (Released(), "released", None),
        (Cancelled(), "cancelled", None),
        (Failed(ERROR), "failed", ErrorCode.GW_5XX),
        (Retry(1.0, ERROR), "retry", ErrorCode.GW_5XX),
    ],
)
def test_every_outcome_has_its_name(outcome, name, code):
    log = EventLog()
    tick(Scripted(), [ended("j", outcome)], log=log)
    (event,) = log.of(AttemptFinished)
    assert (event.outcome, event.code, event.duration) == (name, code, 2.0)


def test_an_unavailable_store_is_raised_to_the_caller():
    run = ended("j")
    with pytest.raises(StoreUnavailable):
        tick(Scripted(StoreUnavailable("gone")), [run])
    assert run.resent


def test_a_bug_without_reports_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        tick(Scripted(ZeroDivisionError()))


def test_reports_that_the_store_cannot_take_are_isolated(caplog):
    store = Scripted(indigestible=("bad", "worst"))
    none = ended("none")
    none.report = None
    tick(store, [ended("good"), none, ended("bad"), ended("worst")])
    assert [ids for ids, _ in store.ticks] == [
        ["good", "bad", "worst"], ["good"], ["bad"], ["bad"], ["worst"], ["worst"], [],
    ]  # fmt: skip
    assert store.ticks[-1][1] is REQUEST
    assert "not reported" in caplog.text


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_outage_while_reports_are_isolated_is_raised_to_the_caller(at):
    class Leaving(Scripted):
        async def tick(self, worker_id, finished=(), request=None):
            if len(self.ticks) == at:
                raise StoreUnavailable("gone")
            return await super().tick(worker_id, finished, request)

    with pytest.raises(StoreUnavailable):
        tick(Leaving(indigestible=("bad",)), [ended("bad")])


@pytest.mark.parametrize("resent, level", [(True, logging.INFO), (False, logging.WARNING)])
def test_a_refusal_is_a_warning_unless_the_report_was_sent_before(caplog, resent, level):
    run = ended("j")
    run.resent = resent
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        tick(Scripted(result(refused=(Refused(run.claim.lease, Refusal.STALE),))), [run])
    assert [record.levelno for record in caplog.records] == [level]


def test_outcomes_of_isolated_reports_are_published_too():
    stale, over, good = ended("stale"), ended("over", Retry(1.0, ERROR)), ended("good")
    record = DownstreamRecord(DownstreamSettings("gw"))

    class Apart(Scripted):
        async def tick(self, worker_id, finished=(), request=None):
            await super().tick(worker_id, finished, request)
            about = {report.lease.job_id for report in finished}
            return result(
                refused=[Refused(stale.claim.lease, Refusal.STALE)] if "stale" in about else (),
                overruled=[Overruled(over.claim.lease, JobStatus.CANCELLED)]
                if "over" in about
                else (),
                moved=[record] if "good" in about else (),
            )

    log = EventLog()
    tick(Apart(indigestible=("bad",)), [stale, over, ended("bad"), good], log=log)
    assert [event.job_id for event in log.of(WriteRefused)] == ["stale"]
    assert [event.job_id for event in log.of(JobOverruled)] == ["over"]
    assert [event.name for event in log.of(CircuitMoved)] == ["gw"]
    assert [event.job_id for event in log.of(AttemptFinished)] == ["over", "good"]


def test_refused_reports_that_may_have_been_accepted_before_are_not_a_warning():
    class Leaving(Scripted):
        async def tick(self, worker_id, finished=(), request=None):
            if len(self.ticks) == 2:
                raise StoreUnavailable("gone")
            return await super().tick(worker_id, finished, request)

    runs = [ended("good"), ended("bad")]
    with pytest.raises(StoreUnavailable):
        tick(Leaving(indigestible=("bad",)), runs)
    assert all(run.resent for run in runs)


def test_a_report_that_raises_a_store_error_is_isolated():
    store = Scripted(indigestible=("bad",), error=StoreError("invalid memory alloc request size"))
    tick(store, [ended("good"), ended("bad")])
    assert [ids for ids, _ in store.ticks] == [["good", "bad"], ["good"], ["bad"], ["bad"], []]


def test_a_report_that_repeatedly_looks_like_an_outage_is_isolated():
    store = Scripted(indigestible=("bad",), error=StoreUnavailable("out of memory"))
    reporter = Reporter(store, "w", [], OPTIONS)
    runs = [ended("good"), ended("bad")]

    async def until_accepted():
        for tries in range(10):
            try:
                await reporter.tick(runs, REQUEST)
            except StoreUnavailable:
                continue
            return tries
        raise AssertionError("the report keeps the worker from reporting anything")

    assert asyncio.run(until_accepted()) == 3
    accepted = [ids for ids, _ in store.ticks[4:]]
    assert accepted == [["good"], ["bad"], ["bad"], ["bad"], []]


def test_an_outage_of_any_length_is_waited_for():
    class Away(Scripted):
        async def progress(self, lease, progress):
            raise StoreUnavailable("gone")

    store = Away(StoreUnavailable("gone"))
    reporter, run = Reporter(store, "w", [], OPTIONS), ended("j")
    for _ in range(10):
        with pytest.raises(StoreUnavailable):
            asyncio.run(reporter.tick([run], REQUEST))
    assert [ids for ids, _ in store.ticks] == [["j"]] * 10


def test_no_report_is_suspected_where_an_outage_ends_right_after_a_tick(caplog):
    store = Scripted(StoreUnavailable("not yet accepting connections"))
    reporter, run = Reporter(store, "w", [], OPTIONS), ended("j")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            asyncio.run(reporter.tick([run], REQUEST))
    store.answer = result()
    asyncio.run(reporter.tick([run], REQUEST))
    assert [ids for ids, _ in store.ticks] == [["j"]] * 4
    assert "one by one" not in caplog.text


@pytest.mark.parametrize("error", [StoreBusy, StoreDiskError, StoreFull])
def test_no_report_is_suspected_while_the_store_can_be_read_but_not_written(error):
    store = Scripted(error("not now"))
    reporter, run = Reporter(store, "w", [], OPTIONS), ended("j")
    for _ in range(10):
        with pytest.raises(error):
            asyncio.run(reporter.tick([run], REQUEST))
    store.answer = result()
    asyncio.run(reporter.tick([run], REQUEST))
    assert [ids for ids, _ in store.ticks] == [["j"]] * 11


def test_a_closed_store_is_not_asked_again():
    store = Scripted(StoreClosed("closed"))
    with pytest.raises(StoreClosed):
        tick(store, [ended("j")])
    assert len(store.ticks) == 1


def failed_run(outcome, error):
    run = ended("j", outcome)
    run.failure, run.error = of_code("GW_5XX", "no"), error
    return run


def test_the_event_of_a_failed_attempt_has_what_a_listener_reports():
    error, log = ValueError("no"), EventLog()
    run = failed_run(Retry(7.0, ERROR), error)
    tick(Scripted(), [run], log=log)
    (event,) = log.of(AttemptFinished)
    assert event.error is error
    assert (event.kind, event.job_id, event.attempt, event.max_attempts) == ("a.work", "j", 1, 3)
    assert (event.code, event.message, event.retry_at) == ("GW_5XX", "no", 107.0)


def test_the_exception_is_released_once_the_report_is_stored():
    stored = failed_run(Failed(ERROR), ValueError("no"))
    tick(Scripted(), [stored])
    assert stored.error is None
    waiting = failed_run(Failed(ERROR), ValueError("no"))
    with pytest.raises(StoreUnavailable):
        tick(Scripted(StoreUnavailable("gone")), [waiting])
    assert waiting.error is not None


def test_a_completed_attempt_has_no_error_in_its_event():
    log = EventLog()
    tick(Scripted(), [ended("j")], log=log)
    (event,) = log.of(AttemptFinished)
    assert (event.error, event.message, event.retry_at) == (None, None, None)
