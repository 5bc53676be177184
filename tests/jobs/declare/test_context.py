"""The context of an attempt: time left, progress, the cancel signal, its logger."""

import asyncio
import logging
import pickle
import threading
from dataclasses import replace

import pytest
from msgspec import structs

from holdfast.errors import Category, ErrorCode
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import CancelReason, JobCancelled, JobContext
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.model import Claim, Lease
from holdfast.resilience.categorize import categorize
from holdfast.testing import VirtualClock

app = App("invoices")


@app.job()
def send(ctx, args): ...


class Port:
    def __init__(self):
        self.notified = []

    def progress_noted(self, context):
        self.notified.append(context)


CLAIM = Claim(
    lease=Lease("j1", 7, "w", 0.0),
    kind="invoices.send",
    queue="default",
    downstream=None,
    arguments="1",
    attempt=2,
    max_attempts=3,
    owner="ann",
    created_at=0.0,
    started_at=1000.0,
    deadline_at=None,
    meta='{"file":"a.pdf"}',
    admission=Admission.CALL,
    permit=None,
)


def context(port=None, clock=None, *, timeout=None, **claim):
    kind = replace(send.kind, timeout=timeout)
    changed = structs.replace(CLAIM, **claim)
    return JobContext(changed, kind, port or Port(), clock or VirtualClock())


def test_it_identifies_the_job_and_the_attempt():
    ctx = context(deadline_at=5000.0)
    assert (ctx.job_id, ctx.kind, ctx.attempt, ctx.max_attempts) == ("j1", "invoices.send", 2, 3)
    assert (ctx.owner, ctx.meta, ctx.token) == ("ann", '{"file":"a.pdf"}', 7)
    assert ctx.deadline_at == 5000.0
    assert repr(ctx) == "<JobContext invoices.send j1 attempt 2>"


def test_the_idempotency_key_is_the_same_for_every_attempt():
    first = context(attempt=1, lease=Lease("j1", 1, "w1", 0.0))
    later = context(attempt=1, lease=Lease("j1", 9, "w2", 0.0))
    assert first.idempotency_key == later.idempotency_key == "invoices.send:j1"


def test_the_idempotency_keys_of_two_jobs_differ():
    other = context(lease=Lease("j2", 1, "w", 0.0))
    assert other.idempotency_key != context().idempotency_key


def test_without_timeout_and_deadline_time_is_unlimited():
    assert context().remaining() is None


@pytest.mark.parametrize(
    "timeout, deadline_at, seconds",
    [(30.0, None, 30), (None, 1020.0, 20), (30.0, 1020.0, 20), (10.0, 1020.0, 10)],
)
def test_the_earlier_of_timeout_and_deadline_counts(timeout, deadline_at, seconds):
    assert context(timeout=timeout, deadline_at=deadline_at).remaining() == pytest.approx(seconds)


def test_remaining_time_runs_down_to_zero_and_not_below():
    clock = VirtualClock()
    ctx = context(clock=clock, timeout=10.0)
    clock.advance(4)
    assert ctx.remaining() == pytest.approx(6)
    clock.advance(40)
    assert ctx.remaining() == 0


def test_a_wrong_time_of_day_does_not_change_the_remaining_time():
    clock = VirtualClock()
    ctx = context(clock=clock, deadline_at=1020.0)
    clock.step_wall(-3600)
    assert ctx.remaining() == pytest.approx(20)


def test_the_port_is_notified_once_for_many_calls_of_progress():
    port = Port()
    ctx = context(port)
    for step in range(10_001):
        ctx.progress(step / 10_000)
    assert port.notified == [ctx]
    assert ctx.take_progress() == (1.0, None)


def test_the_port_is_notified_again_after_progress_was_taken():
    port = Port()
    ctx = context(port)
    ctx.progress(0.1, "reading")
    assert ctx.take_progress() == (0.1, "reading")
    assert ctx.take_progress() is None
    ctx.progress(note="writing")
    assert port.notified == [ctx, ctx]
    assert ctx.take_progress() == (0.1, "writing")
    ctx.progress(0.9)
    assert ctx.take_progress() == (0.9, "writing")


def test_progress_may_be_awaited_and_yields_to_other_tasks():
    async def handler():
        order = []

        async def other():
            order.append("other")

        task = asyncio.create_task(other())
        await context().progress(0.5)
        order.append("handler")
        await task
        return order

    assert asyncio.run(handler()) == ["other", "handler"]


def test_progress_from_many_threads_notifies_once():
    port = Port()
    ctx = context(port)
    threads = [threading.Thread(target=ctx.progress, args=(0.5,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert port.notified == [ctx]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", True])
def test_progress_outside_0_to_1_is_refused_and_not_stored(share):
    ctx = context()
    with pytest.raises((TypeError, ValueError), match="share must"):
        ctx.progress(share)
    assert ctx.take_progress() is None


def test_a_note_that_is_not_a_string_is_refused():
    with pytest.raises(TypeError, match="note must be a str, got 5"):
        context().progress(0.5, 5)


def test_a_new_context_is_not_cancelled():
    ctx = context()
    ctx.raise_if_cancelled()
    assert (ctx.cancel_requested, ctx.cancel_reason) == (False, None)


def test_raise_if_cancelled_raises_after_a_request():
    ctx = context()
    ctx.request_cancel(CancelReason.REQUESTED)
    assert ctx.cancel_requested
    with pytest.raises(JobCancelled, match="job j1: asked to stop") as caught:
        ctx.raise_if_cancelled()
    assert caught.value.reason is CancelReason.REQUESTED
    assert caught.value.code is ErrorCode.CANCELLED


def test_the_first_reason_to_stop_is_kept():
    ctx = context()
    ctx.request_cancel(CancelReason.LEASE_LOST)
    ctx.request_cancel(CancelReason.SHUTDOWN)
    assert ctx.cancel_reason is CancelReason.LEASE_LOST


def test_the_error_of_a_cancelled_attempt_is_permanent_and_crosses_processes():
    error = JobCancelled("j1", CancelReason.TIMEOUT)
    back = pickle.loads(pickle.dumps(error))
    assert categorize(error) is Category.PERMANENT
    assert (str(back), back.reason, back.job_id) == (str(error), CancelReason.TIMEOUT, "j1")


def test_the_logger_adds_the_job_to_every_record(caplog):
    ctx = context()
    with caplog.at_level(logging.INFO, logger="holdfast.job.invoices.send"):
        ctx.logger.info("sent %d pages", 3, extra={"pages": 3})
    (record,) = caplog.records
    assert record.getMessage() == "sent 3 pages"
    assert (record.job_id, record.kind, record.attempt) == ("j1", "invoices.send", 2)
    assert getattr(record, "owner", None) == ctx.owner
    assert record.pages == 3
    assert record.name == "holdfast.job.invoices.send"
    assert ctx.logger is ctx.logger


def test_characters_that_no_store_accepts_are_replaced_in_a_note():
    ctx = context()
    ctx.progress(0.5, "a\0b\ud800")
    assert ctx.take_progress() == (0.5, "a\ufffdb\ufffd")
