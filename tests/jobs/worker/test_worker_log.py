"""What a worker logs by itself."""

import asyncio
import logging
import re
from dataclasses import replace

import pytest
from tests.support.workers import QUICK, claim, rig

from holdfast import (
    BreakerPolicy,
    CircuitOpenError,
    Downstream,
    Exponential,
    Permanent,
    RetryPolicy,
)
from holdfast.errors import AttemptTimeout, ErrorCode
from holdfast.jobs.declare.app import App
from holdfast.jobs.downstreams.record import DownstreamRecord, DownstreamSettings, with_circuit
from holdfast.jobs.job_events import AttemptFinished, KindWithoutWorker
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
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
from holdfast.jobs.store_port import FailedJob, Overruled, Refusal, Refused, TickResult
from holdfast.jobs.worker.failure import of_code
from holdfast.jobs.worker.run import Run
from holdfast.jobs.worker.worker_log import log_results
from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import Cause
from holdfast.testing import VirtualClock

NOW = 1_800_000_000.0
ERROR = JobError(ErrorCode.GW_5XX, "no")
SLOWLY = RetryPolicy(max_attempts=3, backoff=Exponential(base=600, cap=600, jitter=0))
app = App("a")


@app.job(retry=SLOWLY)
async def flaky(ctx):
    raise ConnectionError("refused")


@app.job()
async def broken(ctx):
    raise Permanent("CARD_DECLINED", "Ask your bank.")


@app.job()
async def fine(ctx): ...


def lines(caplog, level):
    return [record for record in caplog.records if record.levelno == level]


def run_jobs(tmp_path, *jobs, **options):
    """Run jobs on a worker of its own; return its events."""

    async def go():
        async with rig(tmp_path, app, **options) as it:
            for job in jobs:
                await it.enqueue(job, job.kind.name.partition(".")[2], owner="ann")
            await it.run()
            return it.told, await it.store.attempts("broken")

    return asyncio.run(go())


def ended(outcome, failure=None, **fields):
    run = Run(claim(**fields), fine.kind, None, VirtualClock(), 1.0)
    run.report = Finished(run.claim.lease, outcome, 2.0)
    run.failure = failure
    return run


def result(**fields):
    given = dict.fromkeys(("claims", "refused", "overruled", "moved", "timed_out"), ())
    return TickResult(**{**given, "wake_at": None, "mark": 0, "now": NOW, **fields})


def test_the_start_says_what_the_worker_serves_and_the_end_that_it_has_stopped(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    run_jobs(tmp_path, fine, concurrency=7)
    texts = [record.getMessage() for record in lines(caplog, logging.INFO)]
    (started,) = [text for text in texts if " started: " in text]
    assert re.fullmatch(
        rf"worker \S+ started: apps a; queues default; concurrency 7; SQLite file {tmp_path}/\S+",
        started,
    )
    assert re.fullmatch(r"worker \S+ stopped", texts[-1])


def test_an_attempt_that_succeeds_is_not_logged(tmp_path, caplog):
    run_jobs(tmp_path, fine)
    assert caplog.records == []


def test_a_failed_attempt_is_a_warning_with_its_next_try(tmp_path, caplog):
    run_jobs(tmp_path, flaky)
    (record,) = lines(caplog, logging.WARNING)
    pattern = (
        r"job flaky \(a\.flaky\) failed attempt 1 of 3: GW_UNAVAILABLE: ConnectionError: refused; "
        r"next try at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    )
    assert re.fullmatch(pattern, record.getMessage())
    assert (record.job_id, record.attempt, record.owner) == ("flaky", 1, "ann")
    assert record.exc_text is None


def test_a_dead_letter_is_an_error_with_the_traceback_that_is_stored(tmp_path, caplog):
    told, attempts = run_jobs(tmp_path, broken)
    (record,) = lines(caplog, logging.ERROR)
    assert record.getMessage() == (
        "job broken (a.broken) is a dead letter after attempt 1 of 3 (permanent): "
        "CARD_DECLINED: Ask your bank."
    )
    assert record.exc_text == attempts[0].traceback
    assert "in broken" in record.exc_text
    assert "executor.py" not in record.exc_text
    assert isinstance(record.exc_info[1], Permanent)
    (event,) = told.of(AttemptFinished)
    assert isinstance(event.error, Permanent)
    assert (event.kind, event.code, event.message) == (
        "a.broken",
        "CARD_DECLINED",
        "Ask your bank.",
    )
    assert (event.attempt, event.max_attempts, event.retry_at) == (1, 3, None)


def test_without_tracebacks_none_is_stored_or_logged(tmp_path, caplog):
    _, attempts = run_jobs(tmp_path, broken, tracebacks=False)
    (record,) = lines(caplog, logging.ERROR)
    assert (record.exc_text, record.exc_info) == (None, None)
    assert attempts[0].traceback is None


def test_a_redacted_traceback_is_what_is_stored_and_logged(tmp_path, caplog):
    _, attempts = run_jobs(tmp_path, broken, tracebacks=lambda text: "redacted")
    (record,) = lines(caplog, logging.ERROR)
    assert (record.exc_text, record.exc_info) == ("redacted", None)
    assert attempts[0].traceback == "redacted"


def test_the_event_of_an_attempt_that_is_cut_or_refused_has_an_error_too(tmp_path, caplog):
    own = App("own")
    gateway = Downstream("gateway", breaker=BreakerPolicy(consecutive_failures=1), mode="fail_fast")

    @own.job(timeout=0.05, retry=RetryPolicy(max_attempts=1))
    async def slow(ctx):
        await asyncio.Event().wait()

    @own.job(downstream=gateway)
    async def guarded(ctx):
        raise ConnectionError("refused")

    async def go():
        async with rig(tmp_path, own, concurrency=1) as it:
            await it.enqueue(slow, "slow")
            await it.enqueue(guarded, "first", "second")
            await it.run()
            return {event.job_id: event.error for event in it.told.of(AttemptFinished)}

    errors = asyncio.run(go())
    assert isinstance(errors["slow"], AttemptTimeout)
    assert isinstance(errors["first"], ConnectionError)
    assert isinstance(errors["second"], CircuitOpenError)
    assert "downstream gateway: the breaker is now OPEN (consecutive failures" in caplog.text
    assert "job second (own.guarded) is a dead letter after attempt 1 of 3 (refused)" in caplog.text


@pytest.mark.parametrize(
    "outcome, status, deadline_at, said",
    [
        (Retry(5.0, ERROR), None, None, "failed attempt 1 of 3: GW_5XX: no; next try at"),
        (Retry(5.0, ERROR), JobStatus.FAILED, None, "(attempts_exhausted): GW_5XX: no"),
        (Retry(5.0, ERROR), JobStatus.CANCELLED, None, None),
        (Retry(5.0, ERROR), JobStatus.FAILED, NOW - 1, "(deadline): TIMEOUT: "),
        (Failed(ERROR), None, None, "(permanent): GW_5XX: no"),
        (Completed(), JobStatus.FAILED, NOW - 1, "(deadline): TIMEOUT: "),
        (Completed(), None, None, None),
        (Cancelled(), None, None, None),
        (Released(), JobStatus.CANCELLED, None, None),
    ],
)
def test_what_the_store_made_of_a_report_is_logged(caplog, outcome, status, deadline_at, said):
    failed = isinstance(outcome, Retry | Failed)
    run = ended(outcome, of_code("GW_5XX", "no") if failed else None, deadline_at=deadline_at)
    overruled = () if status is None else (Overruled(run.claim.lease, status),)
    log_results([run], result(overruled=overruled), whole=True)
    if said is None:
        assert caplog.records == []
    else:
        assert said in caplog.text


def test_a_retry_that_the_store_ends_is_no_dead_letter_of_a_kind_without_them(caplog):
    run = ended(Retry(5.0, ERROR), of_code("GW_5XX", "no"))
    run.kind = replace(run.kind, dead_letters=False)
    overruled = (Overruled(run.claim.lease, JobStatus.FAILED),)
    log_results([run], result(overruled=overruled), whole=True)
    assert "failed for good after attempt 1 of 3: GW_5XX: no" in caplog.text
    assert "dead letter" not in caplog.text


def test_a_refused_report_is_no_failure(caplog):
    run = ended(Failed(ERROR), of_code("GW_5XX"))
    refused = (Refused(run.claim.lease, Refusal.STALE),)
    log_results([run], result(refused=refused), whole=True)
    assert caplog.records == []


def test_jobs_that_a_claim_found_past_their_deadlines_are_dead_letters(caplog):
    """Unless their kind has none."""
    late = (FailedJob("late"), FailedJob("quiet", dead_letter=False))
    log_results([], result(timed_out=late), whole=True)
    assert "job late is a dead letter (deadline): TIMEOUT: " in caplog.text
    assert "job quiet failed for good: TIMEOUT: " in caplog.text


def test_the_trial_of_a_breaker_is_a_detail_and_its_other_moves_are_warnings(caplog):
    caplog.set_level(logging.INFO)
    policy = BreakerPolicy(open_for=30)
    closed = DownstreamRecord(DownstreamSettings("gw", breaker=policy))
    opened = with_circuit(closed, transitions.move(closed.circuit, Cause.STREAK, policy, NOW), NOW)
    half = with_circuit(opened, transitions.move(opened.circuit, Cause.COOLED, policy, NOW), NOW)
    log_results([], result(moved=(opened, half, closed)), whole=True)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"downstream gw: the breaker is now OPEN ({Cause.STREAK})"),
        ("INFO", f"downstream gw: the breaker is now HALF_OPEN ({Cause.COOLED})"),
        ("WARNING", "downstream gw: the breaker is now CLOSED"),
    ]


def test_a_kind_that_no_live_worker_knows_is_a_warning(tmp_path, caplog):
    other = App("gone")

    @other.job()
    async def forgotten(ctx): ...

    async def go():
        chores = MaintenanceOptions(kinds_every=0.02)
        async with rig(tmp_path, app, replace(QUICK, maintenance=chores)) as it:
            await it.enqueue(forgotten, "f")
            async with it.running():
                return await it.told.wait(KindWithoutWorker)

    assert asyncio.run(go()) == KindWithoutWorker("gone.forgotten", 1)
    assert "1 jobs of the kind gone.forgotten wait" in caplog.text
