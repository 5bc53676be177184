"""A context for calling a handler in a unit test."""

import logging

import pytest

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import CancelReason, JobCancelled, JobContext
from holdfast.resilience.policy import RetryPolicy
from holdfast.testing import VirtualClock, job_context

app = App("shop")


@app.job(retry=RetryPolicy(max_attempts=5), timeout=60)
def pack(ctx: JobContext, items: int) -> int:
    for done in range(1, items + 1):
        ctx.raise_if_cancelled()
        ctx.progress(done / items, f"{done} packed")
    return items


def test_a_handler_is_called_with_it_as_a_plain_function():
    ctx = job_context(pack, attempt=2, job_id="order-7", owner="ann", meta="{}")
    assert pack(ctx, 2) == 2
    assert (ctx.kind, ctx.attempt, ctx.max_attempts) == ("shop.pack", 2, 5)
    assert (ctx.job_id, ctx.owner, ctx.meta, ctx.token) == ("order-7", "ann", "{}", 2)
    assert ctx.idempotency_key == "shop.pack:order-7"


def test_its_reports_are_every_progress_of_the_handler():
    ctx = job_context(pack)
    pack(ctx, 2)
    assert ctx.reports == [(0.5, "1 packed"), (1.0, "2 packed")]


def test_a_handler_can_be_asked_to_stop():
    ctx = job_context(pack)
    ctx.request_cancel(CancelReason.SHUTDOWN)
    with pytest.raises(JobCancelled):
        pack(ctx, 2)
    assert ctx.reports == []


def test_the_time_left_is_that_of_the_jobs_timeout_by_the_given_clock():
    clock = VirtualClock()
    ctx = job_context(pack, clock=clock)
    clock.advance(20)
    assert ctx.remaining() == 40
    assert job_context().remaining() is None


def test_it_needs_no_declared_job(caplog):
    caplog.set_level(logging.INFO)
    ctx = job_context()
    ctx.logger.info("hello")
    assert (ctx.kind, ctx.attempt) == ("testing.job", 1)
    assert caplog.records[0].job_id == "test-job"
