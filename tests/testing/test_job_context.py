"""A context for calling a handler in a unit test."""

import asyncio
import logging

import pytest

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import CancelReason, JobCancelled, JobContext
from holdfast.jobs.declare.validation import ValidationError
from holdfast.jobs.exceptions import ContextError
from holdfast.resilience.policy import RateLimit, RetryPolicy
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


@app.job()
async def send(ctx, args: int) -> None:
    async with ctx.transaction() as connection:
        connection.append(args)
    await ctx.enqueue(pack, args, delay=5)
    ctx.enqueue("shop.pack", args)


@app.job()
def send_blocking(ctx, args: int) -> str:
    with ctx.transaction() as connection:
        connection.append(args)
    return ctx.state


def test_a_transaction_yields_the_given_connection_and_enqueued_jobs_are_kept():
    rows = []
    ctx = job_context(send, connection=rows)
    asyncio.run(send(ctx, 7))
    assert rows == [7]
    assert [(request.kind_name, request.args) for request in ctx.enqueued] == [("shop.pack", 7)] * 2
    assert ctx.enqueued[0].delay == 5
    ctx = job_context(send_blocking, connection=rows, state="shared")
    assert send_blocking(ctx, 8) == "shared"
    assert rows == [7, 8]


def test_what_is_not_given_and_wrong_arguments_are_refused_as_in_a_worker():
    ctx = job_context(send)
    with pytest.raises(ContextError, match=r"job_context\(connection=\.\.\.\)"):
        asyncio.run(send(ctx, 7))
    with pytest.raises(ContextError, match=r"job_context\(state=\.\.\.\)"):
        assert ctx.state
    with pytest.raises(ContextError, match="virtual_engine"):
        assert ctx.database
    with pytest.raises(ContextError, match="virtual_engine"):
        assert ctx.engine
    with pytest.raises(ContextError, match="virtual_engine"):
        ctx.shared_rate("gemini", RateLimit(per_minute=2))
    with pytest.raises(ValidationError):
        ctx.enqueue(pack, "seven")
    assert ctx.enqueued == []
    with pytest.raises(ContextError, match="once in an attempt"):
        ctx.transaction()
