"""Middleware around attempts: order, results, errors, cancellation."""

import asyncio
import time
from dataclasses import replace

import pytest
from tests.support import isolated
from tests.support.workers import QUICK, rig

from holdfast.errors import Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.worker.middleware import IsolatedFailure
from holdfast.resilience.policy import RetryPolicy

ONCE = RetryPolicy(max_attempts=1)


def scenario(tmp_path, app, work, **options):
    async def go():
        async with rig(tmp_path, app, replace(QUICK, **options)) as it:
            return await work(it)

    return asyncio.run(go())


def recording(log, name):
    async def middleware(ctx, call_next):
        log.append(f"{name} before {ctx.job_id}")
        result = await call_next()
        log.append(f"{name} after {result!r}")
        return result

    return middleware


def test_the_first_is_outermost_around_async_and_blocking_handlers(tmp_path):
    log = []
    app = App("shop", middleware=[recording(log, "outer"), recording(log, "inner")])

    @app.job()
    async def coroutine(ctx: JobContext) -> int:
        log.append("handler")
        return 7

    @app.job()
    def blocking(ctx: JobContext) -> int:
        log.append("handler")
        return 7

    async def work(it):
        await it.enqueue(coroutine, "first")
        await it.enqueue(blocking, "second")
        await it.run()
        for job_id in ("first", "second"):
            assert (await it.store.get(job_id)).result == "7"
        assert log == [
            line
            for job_id in ("first", "second")
            for line in (
                f"outer before {job_id}", f"inner before {job_id}", "handler", "inner after 7",
                "outer after 7",
            )
        ]  # fmt: skip

    scenario(tmp_path, app, work, concurrency=1)


def test_its_result_is_the_result_and_its_error_is_the_attempts(tmp_path):
    async def doubling(ctx, call_next):
        value = await call_next()
        if value == 13:
            raise Permanent("UNLUCKY", "thirteen")
        return value * 2

    app = App("shop", middleware=[doubling])

    @app.job(retry=ONCE)
    async def number(ctx: JobContext, args: int) -> int:
        return args

    async def work(it):
        await it.enqueue(number, "good", arguments="4")
        await it.enqueue(number, "bad", arguments="13")
        await it.run()
        assert (await it.store.get("good")).result == "8"
        assert (await it.store.get("bad")).error.code == "UNLUCKY"

    scenario(tmp_path, app, work)


def test_it_sees_the_handlers_exception(tmp_path):
    seen = []

    async def watching(ctx, call_next):
        try:
            return await call_next()
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    app = App("shop", middleware=[watching])

    @app.job(retry=ONCE)
    async def number(ctx: JobContext, args: int) -> None:
        raise KeyError(args)

    async def work(it):
        await it.enqueue(number, "raises", arguments="1")
        await it.run()
        assert seen == ["KeyError"]
        assert await it.status("raises") == "failed"

    scenario(tmp_path, app, work)


def test_calling_the_handler_twice_is_refused(tmp_path):
    async def twice(ctx, call_next):
        await call_next()
        return await call_next()

    app, calls = App("shop", middleware=[twice]), []

    @app.job(retry=ONCE)
    async def work_once(ctx: JobContext) -> None:
        calls.append(1)

    async def work(it):
        await it.enqueue(work_once, "job")
        await it.run()
        job = await it.store.get("job")
        assert calls == [1]
        assert job.error.code == "INVALID_STATE"
        assert "twice" in job.error.message

    scenario(tmp_path, app, work)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_timeout_cancels_a_middleware_of_a_blocking_handler(tmp_path, when):
    async def hanging(ctx, call_next):
        if when == "after":
            await call_next()
        await asyncio.Event().wait()

    app = App("shop", middleware=[hanging])

    @app.job(retry=ONCE, timeout=0.05)
    def blocking(ctx: JobContext) -> None: ...

    async def work(it):
        await it.enqueue(blocking, "job")
        began = time.monotonic()
        await it.run()
        assert (await it.store.get("job")).error.code == "TIMEOUT"
        assert time.monotonic() - began < 30

    scenario(tmp_path, app, work, cleanup_seconds=30)


def test_a_cancelled_job_cancels_the_middleware_with_its_handler(tmp_path):
    seen = []

    async def watching(ctx, call_next):
        try:
            return await call_next()
        except asyncio.CancelledError:
            seen.append(ctx.cancel_reason)
            raise

    app, started = App("shop", middleware=[watching]), asyncio.Event()

    @app.job(retry=ONCE)
    async def endless(ctx: JobContext) -> None:
        started.set()
        await asyncio.Event().wait()

    async def work(it):
        await it.enqueue(endless, "job")
        async with it.running():
            await started.wait()
            await it.store.cancel("job")
            await it.until("job", "cancelled")
        assert [str(reason) for reason in seen] == ["requested"]

    scenario(tmp_path, app, work)


def test_it_runs_in_the_workers_process_around_an_isolated_handler(tmp_path):
    async def work(it):
        await it.enqueue(isolated.wrapped, "fine", arguments="20")
        await it.enqueue(isolated.wrapped, "bad", arguments="-1")
        await it.run()
        assert (await it.store.get("fine")).result == "41"
        assert (await it.store.get("bad")).error.code == "NEGATIVE"
        assert [("bad", IsolatedFailure, "NEGATIVE")] == isolated.SEEN

    scenario(tmp_path, isolated.wrapped_app, work)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda ctx, call_next: None, "async def middleware"),
        ("text", "async def middleware"),
    ],
)
def test_what_cannot_be_a_middleware_is_refused_at_declaration(given, words):
    with pytest.raises(TypeError, match=words):
        App("shop", middleware=[given])


def test_a_middleware_with_other_parameters_and_a_single_function_are_refused():
    async def lonely(ctx): ...

    with pytest.raises(TypeError, match=r"must take \(ctx, call_next\)"):
        App("shop", middleware=[lonely])
    with pytest.raises(TypeError, match="a list of functions"):
        App("shop", middleware=lonely)
