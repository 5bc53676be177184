"""Reports: all in one tick, an indigestible one on its own, and listeners told the truth."""

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
    Overruled,
    Refusal,
    Refused,
    StoreUnavailable,
    TickResult,
)
from holdfast.jobs.worker.report import Reporter
from holdfast.jobs.worker.run import Run
from holdfast.testing import VirtualClock

ERROR = JobError(ErrorCode.GW_5XX, "no")
REQUEST = ClaimRequest(1, ("default",), {})


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
    def __init__(self, answer=None, indigestible=()):
        self.answer = answer or result()
        self.indigestible = indigestible
        self.ticks = []

    async def tick(self, worker_id, finished=(), request=None):
        self.ticks.append(([report.lease.job_id for report in finished], request))
        if isinstance(self.answer, Exception):
            raise self.answer
        for report in finished:
            job_id = report.lease.job_id
            hard = isinstance(report.outcome, Completed) or job_id == "worst"
            if hard and job_id in self.indigestible:
                raise ValueError("cannot")
        return self.answer


def tick(store, runs=(), request=REQUEST, told=None):
    reporter = Reporter(store, "w", [told] if told else [])
    return asyncio.run(reporter.tick(list(runs), request))


def test_what_happened_is_told_and_only_what_was_accepted():
    good, stale, overruled = ended("good"), ended("stale"), ended("over", Retry(1.0, ERROR))
    record = DownstreamRecord(DownstreamSettings("gw"))
    store, told = Scripted(result(
        claims=(claim(job_id="new", created_at=990.0),),
        refused=(Refused(stale.claim.lease, Refusal.STALE),),
        overruled=(Overruled(overruled.claim.lease, JobStatus.CANCELLED),),
        moved=(record,), timed_out=("late",),
    )), EventLog()  # fmt: skip
    tick(store, [good, stale, overruled], told=told)
    assert told.of(JobClaimed) == [JobClaimed("k", "new", 1, 10.0)]
    assert [event.job_id for event in told.of(AttemptFinished)] == ["good", "over"]
    assert told.of(WriteRefused) == [WriteRefused("a.work", "stale", 7, Refusal.STALE)]
    assert told.of(JobOverruled) == [JobOverruled("a.work", "over", JobStatus.CANCELLED)]
    assert told.of(CircuitMoved) == [CircuitMoved("gw", "CLOSED", None)]
    assert told.of(JobsTimedOut)[0].job_ids == ("late",)


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
    told = EventLog()
    tick(Scripted(), [ended("j", outcome)], told=told)
    (event,) = told.of(AttemptFinished)
    assert (event.outcome, event.code, event.duration) == (name, code, 2.0)


def test_a_store_that_is_away_is_the_callers_to_wait_for():
    run = ended("j")
    with pytest.raises(StoreUnavailable):
        tick(Scripted(StoreUnavailable("gone")), [run])
    assert run.resent


def test_a_bug_without_reports_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        tick(Scripted(ZeroDivisionError()))


def test_reports_that_cannot_be_digested_are_set_apart(caplog):
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
def test_a_store_that_goes_away_while_reports_are_set_apart_is_waited_for(at):
    class Leaving(Scripted):
        async def tick(self, worker_id, finished=(), request=None):
            if len(self.ticks) == at:
                raise StoreUnavailable("gone")
            return await super().tick(worker_id, finished, request)

    with pytest.raises(StoreUnavailable):
        tick(Leaving(indigestible=("bad",)), [ended("bad")])


@pytest.mark.parametrize("resent, level", [(True, logging.INFO), (False, logging.WARNING)])
def test_a_refusal_is_news_unless_the_report_was_sent_before(caplog, resent, level):
    run = ended("j")
    run.resent = resent
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        tick(Scripted(result(refused=(Refused(run.claim.lease, Refusal.STALE),))), [run])
    assert [record.levelno for record in caplog.records] == [level]


def test_what_came_of_reports_that_were_set_apart_is_told_too():
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

    told = EventLog()
    tick(Apart(indigestible=("bad",)), [stale, over, ended("bad"), good], told=told)
    assert [event.job_id for event in told.of(WriteRefused)] == ["stale"]
    assert [event.job_id for event in told.of(JobOverruled)] == ["over"]
    assert [event.name for event in told.of(CircuitMoved)] == ["gw"]
    assert [event.job_id for event in told.of(AttemptFinished)] == ["over", "good"]


def test_reports_that_may_have_been_taken_one_by_one_are_no_news_when_refused():
    class Leaving(Scripted):
        async def tick(self, worker_id, finished=(), request=None):
            if len(self.ticks) == 2:
                raise StoreUnavailable("gone")
            return await super().tick(worker_id, finished, request)

    runs = [ended("good"), ended("bad")]
    with pytest.raises(StoreUnavailable):
        tick(Leaving(indigestible=("bad",)), runs)
    assert all(run.resent for run in runs)
