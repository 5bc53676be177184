"""Lifespans: entered before the first claim, left after the last report, and never in the way."""

import asyncio
import contextlib
import logging
import time

import pytest

from holdfast.bootstrap import Engine
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.exceptions import LifespanFailed
from holdfast.jobs.job_events import JobClaimed, WorkerStarted
from holdfast.jobs.model import JobStatus
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.resilience.policy import RetryPolicy

ONCE = RetryPolicy(max_attempts=1)


def lifespan_of(log, name="shop", state=None):
    @contextlib.asynccontextmanager
    async def lifespan(app):
        assert app.name == name
        log.append(f"enter {name}")
        task = asyncio.current_task()
        yield state
        assert asyncio.current_task() is task
        log.append(f"leave {name}")

    return lifespan


def play(tmp_path, apps, scenario, **options):
    async def go():
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
        async with Engine(url, apps=apps, **options) as engine:
            return await scenario(engine)

    return asyncio.run(go())


def test_its_value_is_the_state_of_async_and_blocking_handlers(tmp_path):
    log, state = [], {"pool": object()}
    app = App("shop", lifespan=lifespan_of(log, state=state))

    @app.job()
    async def coroutine(ctx: JobContext) -> bool:
        log.append("run")
        return ctx.state is state

    @app.job()
    def blocking(ctx: JobContext) -> bool:
        return ctx.state["pool"] is state["pool"]

    async def scenario(engine):
        jobs = [await engine.enqueue(coroutine), await engine.enqueue(blocking)]
        await engine.work(until_idle=True)
        assert [await engine.result(job) for job in jobs] == [True, True]
        assert log == ["enter shop", "run", "leave shop"]

    play(tmp_path, [app], scenario)


def test_it_is_left_after_the_last_attempt_was_reported(tmp_path):
    statuses = []

    @contextlib.asynccontextmanager
    async def lifespan(app):
        yield
        statuses.append((await engines[0].get("job")).status)

    app = App("shop", lifespan=lifespan)

    @app.job()
    async def work(ctx: JobContext) -> None: ...

    engines = []

    async def scenario(engine):
        engines.append(engine)
        await engine.enqueue(work, id="job")
        await engine.work(until_idle=True)
        assert statuses == [JobStatus.COMPLETE]

    play(tmp_path, [app], scenario)


def test_apps_are_entered_in_order_and_those_without_a_lifespan_have_no_state(tmp_path):
    log = []
    first = App("first", lifespan=lifespan_of(log, "first"))
    plain = App("plain")
    second = App("second", lifespan=lifespan_of(log, "second", 2))

    @plain.job(retry=ONCE)
    async def stateless(ctx: JobContext) -> object:
        return ctx.state

    @second.job()
    async def stateful(ctx: JobContext) -> int:
        return ctx.state

    async def scenario(engine):
        without, job = await engine.enqueue(stateless), await engine.enqueue(stateful)
        await engine.work(until_idle=True)
        assert log[:2] == ["enter first", "enter second"]
        assert sorted(log[2:]) == ["leave first", "leave second"]
        assert await engine.result(job) == 2
        error = (await engine.get(without)).error
        assert error.code == "INVALID_STATE"
        assert "App('plain', lifespan=...)" in error.message

    play(tmp_path, [first, plain, second], scenario)


def test_one_that_raises_stops_the_start_and_nothing_is_claimed(tmp_path, caplog):
    log, events = [], []
    first = App("first", lifespan=lifespan_of(log, "first"))

    @contextlib.asynccontextmanager
    async def broken(app):
        raise ConnectionRefusedError("no database at localhost")
        yield

    second = App("second", lifespan=broken)

    @first.job()
    async def work(ctx: JobContext) -> None: ...

    async def scenario(engine):
        job = await engine.enqueue(work)
        with pytest.raises(
            LifespanFailed, match=r"app second: .*no database at localhost"
        ) as raised:
            await engine.work(until_idle=True)
        assert isinstance(raised.value.__cause__, ConnectionRefusedError)
        assert (await engine.get(job)).attempt_count == 0
        assert log == ["enter first", "leave first"]
        assert not [event for event in events if isinstance(event, JobClaimed | WorkerStarted)]

    play(tmp_path, [first, second], scenario, listeners=[events.append])
    assert "the lifespan of app second failed at its start" in caplog.text


def test_one_that_raises_a_cancellation_by_itself_has_failed(tmp_path, caplog):
    @contextlib.asynccontextmanager
    async def cancelled(app):
        raise asyncio.CancelledError("the driver gave up")
        yield

    async def scenario(engine):
        with pytest.raises(LifespanFailed, match=r"app shop: .*CancelledError: the driver gave up"):
            await engine.work(until_idle=True)

    play(tmp_path, [App("shop", lifespan=cancelled)], scenario)
    assert "the lifespan of app shop failed at its start" in caplog.text


def test_one_that_raises_at_its_end_is_logged_and_harms_nothing(tmp_path, caplog):
    @contextlib.asynccontextmanager
    async def lifespan(app):
        yield
        raise ValueError("cannot flush")

    app = App("shop", lifespan=lifespan)

    @app.job()
    async def work(ctx: JobContext) -> int:
        return 1

    async def scenario(engine):
        job = await engine.enqueue(work)
        await engine.work(until_idle=True)
        assert await engine.result(job) == 1

    play(tmp_path, [app], scenario)
    assert "the lifespan of app shop failed at its end" in caplog.text


@pytest.mark.parametrize("swallows", [False, True])
def test_one_that_hangs_at_its_end_is_cancelled_and_then_left_alone(tmp_path, caplog, swallows):
    hanging = []

    @contextlib.asynccontextmanager
    async def lifespan(app):
        yield
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise
            hanging.append(asyncio.current_task())
            await release.wait()

    app, release = App("shop", lifespan=lifespan), asyncio.Event()

    @app.job()
    async def work(ctx: JobContext) -> int:
        return 1

    async def scenario(engine):
        job = await engine.enqueue(work)
        worker, began = engine.worker(WorkerOptions(shutdown_seconds=0.1)), time.monotonic()
        await worker.run(until_idle=True)
        assert time.monotonic() - began < 30
        assert await engine.result(job) == 1
        assert worker.unfinished_lifespans == int(swallows)
        release.set()
        await asyncio.gather(*hanging)

    play(tmp_path, [app], scenario)
    words = "does not end and is left alone" if swallows else "was cancelled"
    assert f"it {words}" in caplog.text


def test_a_stop_during_the_start_cancels_it(tmp_path):
    log, entering = [], asyncio.Event()
    first = App("first", lifespan=lifespan_of(log, "first"))

    @contextlib.asynccontextmanager
    async def slow(app):
        entering.set()
        try:
            await asyncio.Event().wait()
            yield
        finally:
            log.append("cancelled")

    app = App("slow", lifespan=slow)

    @app.job()
    async def work(ctx: JobContext) -> None: ...

    async def scenario(engine):
        job = await engine.enqueue(work)
        worker = engine.worker()
        running = asyncio.create_task(worker.run())
        await entering.wait()
        worker.stop()
        await running
        assert (await engine.get(job)).attempt_count == 0
        assert log[0] == "enter first"
        assert sorted(log[1:]) == ["cancelled", "leave first"]

    play(tmp_path, [first, app], scenario)


def test_a_worker_can_run_again_and_enters_it_again(tmp_path):
    log = []
    app = App("shop", lifespan=lifespan_of(log))

    async def scenario(engine):
        for _ in range(2):
            await engine.work(until_idle=True)
        assert log == ["enter shop", "leave shop"] * 2

    play(tmp_path, [app], scenario)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (7, "must be a function"),
        (lambda: None, r"must take \(app\)"),
        (lambda app, more: None, r"must take \(app\)"),
    ],
)
def test_what_cannot_be_a_lifespan_is_refused_at_declaration(given, words):
    with pytest.raises(TypeError, match=words):
        App("shop", lifespan=given)


def test_a_lifespan_without_its_decorator_is_refused_at_declaration():
    async def generator(app):
        yield

    async def coroutine(app): ...

    for given in (generator, coroutine):
        with pytest.raises(TypeError, match=r"@contextlib\.asynccontextmanager"):
            App("shop", lifespan=given)


def test_nothing_is_logged_where_all_is_well(tmp_path, caplog):
    app = App("shop", lifespan=lifespan_of([]))

    async def scenario(engine):
        await engine.work(until_idle=True)

    with caplog.at_level(logging.WARNING):
        play(tmp_path, [app], scenario)
    assert caplog.records == []
