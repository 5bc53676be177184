"""An engine on virtual time: hours pass in no time, and every run is the same."""

import asyncio
import itertools
import os
import threading
import time
from contextlib import asynccontextmanager

import apsw
import httpx
import pytest
from tests.support import isolated, notes

from holdfast import (
    App,
    BreakerPolicy,
    ContextError,
    Downstream,
    Exponential,
    JobContext,
    JobFailed,
    JobStatus,
    RateLimit,
    RetryPolicy,
    WaitTimeout,
    WorkerOptions,
)
from holdfast.jobs.store_port import ClaimRequest
from holdfast.testing import EngineStuck, ScriptedDownstream, VirtualClock, virtual_engine
from holdfast.testing.downstream import ok, status

HOUR, DAY = 3600.0, 86400.0


def steady(**options):
    """Return a policy that waits 60, 120, 240, ... seconds."""
    return RetryPolicy(backoff=Exponential(base=60, multiplier=2, cap=DAY, jitter=0), **options)


def starts(engine, job):
    """Return when the attempts of a job began, in seconds since the engine's start."""
    return [attempt.started_at - 1_700_000_000 for attempt in engine.attempts(job)]


@pytest.fixture
def app():
    return App("shop")


def test_its_worker_registers_the_old_names_of_kinds_too(app):
    @app.job("send", aliases=("post",))
    async def send(ctx: JobContext) -> None: ...

    virtual, registered = virtual_engine([app]), []
    real = virtual.store.heartbeats

    def heartbeats(kinds=None):
        registered.append(kinds)
        return real(kinds)

    virtual.store.heartbeats = heartbeats
    with virtual.blocking() as engine:
        engine.enqueue(send)
        engine.run_until_idle()
    assert set(registered[0]) == {"shop.send", "shop.post"}


# -- what passes in no time ------------------------------------------------------------------------


def test_retries_wait_as_the_policy_says(app):
    @app.job(retry=steady(max_attempts=4))
    async def charge(ctx: JobContext) -> str:
        if ctx.attempt < 4:
            raise ConnectionError
        return "charged"

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(charge)
        engine.run_until_idle()
        assert engine.result(job) == "charged"
        assert starts(engine, job) == [0, 60, 180, 420]


def test_a_handler_that_is_not_async_is_run_on_a_thread(app):
    @app.job(retry=steady(max_attempts=2))
    def charge(ctx: JobContext) -> str:
        time.sleep(0.01)  # real, and no virtual time passes
        if ctx.attempt < 2:
            raise ConnectionError
        return threading.current_thread().name

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(charge)
        engine.run_until_idle()
        assert engine.result(job) == "holdfast-handler"
        assert starts(engine, job) == [0, 60]


def test_a_delay_of_a_week_passes(app):
    @app.job()
    async def remind(ctx: JobContext) -> None: ...

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(remind, delay=7 * DAY)
        engine.run_until_idle()
        assert starts(engine, job) == [7 * DAY]


def test_advance_runs_what_is_due_and_stops_there(app):
    @app.job()
    async def remind(ctx: JobContext) -> None: ...

    with virtual_engine([app]).blocking() as engine:
        soon, late = engine.enqueue(remind, delay=HOUR), engine.enqueue(remind, delay=3 * HOUR)
        engine.advance(2 * HOUR)
        assert engine.clock.monotonic() == 2 * HOUR
        assert starts(engine, soon) == [HOUR]
        assert engine.get(late).status is JobStatus.QUEUED
        engine.advance(HOUR)
        assert starts(engine, late) == [3 * HOUR]
        with pytest.raises(ValueError, match="seconds"):
            engine.advance(-1)


def test_a_handler_over_its_timeout_is_cut_off_and_tried_again(app):
    @app.job(retry=steady(max_attempts=2), timeout=30)
    async def hang(ctx: JobContext) -> str:
        if ctx.attempt == 1:
            await asyncio.sleep(10 * HOUR)
        return "second"

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(hang)
        engine.run_until_idle()
        assert engine.result(job) == "second"
        assert starts(engine, job) == [0, 30 + 60]


def test_a_job_past_its_deadline_fails(app):
    @app.job(downstream=Downstream("bank"))
    async def charge(ctx: JobContext) -> None: ...

    with virtual_engine([app]).blocking() as engine:
        engine.downstreams.hold("bank")
        job = engine.enqueue(charge, deadline=HOUR)
        engine.run_until_idle()
        with pytest.raises(JobFailed, match="TIMEOUT"):
            engine.result(job)
        assert engine.clock.monotonic() == pytest.approx(HOUR)


def test_an_attempt_of_hours_keeps_its_lease(app):
    @app.job()
    async def crunch(ctx: JobContext) -> int:
        await asyncio.sleep(3 * HOUR)
        return ctx.attempt

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(crunch)
        engine.run_until_idle()
        assert engine.result(job) == 1
        assert engine.clock.monotonic() == 3 * HOUR


def test_the_job_of_a_vanished_worker_runs_again_after_its_lease(app):
    @app.job()
    async def charge(ctx: JobContext) -> int:
        return ctx.attempt

    clock = VirtualClock()

    async def main():
        async with virtual_engine([app], clock=clock) as engine:
            job = await engine.enqueue(charge)
            await engine.store.tick(
                "gone", claim=ClaimRequest(1, ("default",), {"shop.charge": None}, 300.0)
            )
            await engine.run_until_idle()
            return await engine.result(job)

    assert clock.run(main()) == 2
    assert clock.monotonic() == 300


def test_an_open_breaker_is_waited_for(app):
    calls = []
    bank = Downstream(
        "bank", breaker=BreakerPolicy(consecutive_failures=2, open_for=HOUR, trial_calls=1)
    )

    @app.job(retry=steady(max_attempts=5), downstream=bank)
    async def charge(ctx: JobContext) -> None:
        calls.append(ctx.job_id)
        if len(calls) <= 2:
            raise ConnectionError

    with virtual_engine([app]).blocking() as engine:
        jobs = [engine.enqueue(charge) for _ in range(3)]
        engine.run_until_idle()
        assert {engine.get(job).status for job in jobs} == {JobStatus.COMPLETE}
        assert engine.clock.monotonic() == HOUR


def test_a_probe_ends_the_wait_for_a_breaker(app):
    up = []
    bank = Downstream(
        "bank",
        breaker=BreakerPolicy(consecutive_failures=1, open_for=DAY, trial_calls=1),
        probe=lambda: bool(up),
        probe_every=10,
    )

    @app.job(retry=steady(max_attempts=5), downstream=bank)
    async def charge(ctx: JobContext) -> None:
        if not up:
            raise ConnectionError

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(charge)
        engine.advance(120)
        assert engine.get(job).status is JobStatus.QUEUED
        up.append(True)
        engine.advance(60)
        assert engine.get(job).status is JobStatus.COMPLETE


def test_a_rate_limit_is_waited_for(app):
    @app.job(downstream=Downstream("bank", rate=RateLimit(per_minute=2)))
    async def charge(ctx: JobContext) -> None: ...

    with virtual_engine([app]).blocking() as engine:
        jobs = [engine.enqueue(charge) for _ in range(3)]
        engine.run_until_idle()
        began = [starts(engine, job)[0] for job in jobs]
        assert began[:2] == [0, 0]
        assert 55 <= began[2] <= 65


def test_every_slot_of_a_periodic_job_is_run(app):
    @app.periodic("*/5 * * * *", timezone="Europe/Berlin")
    async def tidy(ctx: JobContext) -> None: ...

    @app.job()
    async def other(ctx: JobContext) -> None:
        await asyncio.sleep(1000)

    with virtual_engine([app]).blocking() as engine:
        engine.run_until_idle()
        assert engine.list().jobs == ()
        engine.enqueue(other, delay=600)
        engine.advance(HOUR)
        slots = sorted(job.created_at for job in engine.list().jobs if job.kind == "shop.tidy")
        assert len(slots) == 12
        assert {round(after - before) for before, after in itertools.pairwise(slots)} == {300}


def test_time_stands_still_while_a_child_process_works():
    with virtual_engine([isolated.values_app]).blocking() as engine:
        job = engine.enqueue(isolated.pid)
        engine.run_until_idle()
        assert engine.result(job) != os.getpid()
        assert engine.clock.monotonic() == 0


def test_a_real_server_answers_within_virtual_time(app):
    with ScriptedDownstream() as server:
        server.script(status(503), ok(b"hello"))

        @app.job(retry=steady(max_attempts=2))
        async def fetch(ctx: JobContext) -> str:
            async with httpx.AsyncClient(timeout=HOUR) as client:
                return (await client.get(server.url)).raise_for_status().text

        with virtual_engine([app]).blocking() as engine:
            job = engine.enqueue(fetch)
            engine.run_until_idle()
            assert engine.result(job) == "hello"
            assert len(starts(engine, job)) == 2


# -- every run is the same -------------------------------------------------------------------------


def played(seed):
    """Return what happens to jobs of several kinds, with times."""
    app, log = App("shop"), []

    @app.job(retry=RetryPolicy(max_attempts=4, backoff=Exponential(base=60, jitter=0.5)))
    async def fail(ctx: JobContext, name: str) -> None:
        log.append((clock.monotonic(), name, ctx.attempt))
        await asyncio.sleep(ctx.attempt)
        raise ConnectionError

    @app.job(retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=30, jitter="full")))
    def block(ctx: JobContext, name: str) -> None:
        log.append((clock.monotonic(), name, ctx.attempt))
        raise ConnectionError

    clock = VirtualClock()
    with virtual_engine([app], clock=clock, seed=seed).blocking() as engine:
        for number in range(6):
            engine.enqueue(fail, f"async {number}", id=f"a{number}")
            engine.enqueue(block, f"sync {number}", id=f"b{number}", delay=number)
        engine.run_until_idle()
        events = [
            (job.id, event.name, event.at, event.attempt)
            for job in engine.list().jobs
            for event in engine.events(job)
        ]
    return log, events


def test_a_seed_run_twice_gives_the_same_trace():
    first, again, other = played(1), played(1), played(2)
    assert first == again
    assert first != other


# -- it cannot hang --------------------------------------------------------------------------------


def test_a_blocking_handler_that_does_not_return_is_named(app):
    released = threading.Event()

    @app.job()
    def hang(ctx: JobContext) -> None:
        released.wait(60)

    with virtual_engine([app], real_seconds=0.5).blocking() as engine:
        engine.enqueue(hang, id="first")
        with pytest.raises(
            EngineStuck, match=r"0\.5 real seconds .*shop\.hang \(job first, attempt 1, not async\)"
        ):
            engine.run_until_idle()
        released.set()


def test_an_async_handler_that_waits_for_ever_is_named(app):
    @app.job()
    async def wait(ctx: JobContext) -> None:
        await asyncio.Event().wait()

    with virtual_engine([app], real_seconds=0.5).blocking() as engine:
        engine.enqueue(wait, id="first")
        with pytest.raises(EngineStuck, match=r"shop\.wait \(job first, attempt 1\)"):
            engine.run_until_idle()


def test_jobs_that_never_end_to_become_due_are_noticed(app):
    clock = VirtualClock()

    async def main():
        async with virtual_engine([app], clock=clock, real_seconds=0.5) as engine:

            @app.job()
            async def follow(ctx: JobContext) -> None:
                await engine.enqueue(follow, delay=60)

            await engine.enqueue(follow)
            # The real time may be over while one of the jobs runs, or between two of them.
            with pytest.raises(EngineStuck, match=r"without an end|shop\.follow \(job"):
                await engine.run_until_idle()

    clock.run(main())


def test_a_wait_that_nobody_ends_is_noticed(app):
    @app.job()
    async def charge(ctx: JobContext) -> None: ...

    with virtual_engine([app], real_seconds=0.5).blocking() as engine:
        job = engine.enqueue(charge)
        with pytest.raises(EngineStuck, match="no job"):
            engine.wait(job)


def test_a_wait_ends_with_the_job_or_with_its_time(app):
    @app.job()
    async def charge(ctx: JobContext) -> None: ...

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(charge)
        with pytest.raises(WaitTimeout):
            engine.result(job, timeout=60)
        engine.run_until_idle()
        assert engine.wait(job).status is JobStatus.COMPLETE
        assert engine.clock.monotonic() == 60


def test_the_limit_must_be_a_number(app):
    with pytest.raises(ValueError, match="real_seconds"):
        virtual_engine([app], real_seconds=0)


# -- how it is used --------------------------------------------------------------------------------


def test_an_ordinary_event_loop_is_refused(app):
    async def main():
        async with virtual_engine([app]):
            pass

    with pytest.raises(RuntimeError, match="needs the event loop of its clock"):
        asyncio.run(main())


def test_a_job_is_enqueued_in_a_transaction_of_the_test(app):
    @app.job()
    async def charge(ctx: JobContext) -> None: ...

    with virtual_engine([app]).blocking() as engine:
        connection = apsw.Connection(str(engine.path))
        with connection:
            engine.enqueue(charge, id="one", connection=connection)
        connection.close()
        engine.run_until_idle()
        assert engine.get("one").status is JobStatus.COMPLETE
    assert not engine.path.parent.exists()


def test_several_attempts_run_at_once_where_asked(app):
    @app.job()
    async def wait(ctx: JobContext) -> None:
        await asyncio.sleep(60)

    with virtual_engine([app], options=WorkerOptions(concurrency=20)).blocking() as engine:
        for _ in range(20):
            engine.enqueue(wait)
        engine.run_until_idle()
        assert engine.clock.monotonic() == 60


def test_lifespans_transactions_and_jobs_that_follow_work_as_in_a_worker():
    @asynccontextmanager
    async def lifespan(app):
        yield "shared"

    own = App("own", lifespan=lifespan)

    @own.job()
    async def follow(ctx: JobContext) -> object:
        return ctx.state

    @own.job(retry=steady(max_attempts=2))
    async def write(ctx: JobContext) -> int:
        async with ctx.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (attempt)")
            connection.execute("INSERT INTO rows VALUES (?)", (ctx.attempt,))
            if ctx.attempt == 1:
                raise ConnectionError
        ctx.enqueue(follow, id="child", delay=DAY)
        with pytest.raises(ContextError):
            ctx.transaction()
        return ctx.attempt

    @own.job()
    def read(ctx: JobContext) -> list[int]:
        with ctx.transaction() as connection:
            return [attempt for (attempt,) in connection.execute("SELECT attempt FROM rows")]

    with virtual_engine([own]).blocking() as engine:
        job = engine.enqueue(write)
        engine.run_until_idle()
        assert engine.result(job) == 2
        assert engine.result("child") == "shared"
        reading = engine.enqueue(read)
        engine.run_until_idle()
        assert engine.result(reading) == [2]


def test_a_transaction_that_lasts_too_long_is_rolled_back_as_in_a_worker(app):
    @app.job(retry=steady(max_attempts=1))
    async def hold(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.execute("CREATE TABLE rows (value)")
            await asyncio.sleep(HOUR)
            connection.execute("INSERT INTO rows VALUES (1)")

    with virtual_engine([app]).blocking() as engine:
        job = engine.enqueue(hold)
        engine.run_until_idle()
        failed = engine.get(job)
        assert failed.status is JobStatus.FAILED
        assert "for more than 3 s and was rolled back" in failed.error.message


def test_the_limit_of_a_transaction_ends_with_it(app):
    @app.job()
    async def write(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (value)")

    with virtual_engine([app]).blocking() as engine:
        first = engine.enqueue(write)
        second = engine.enqueue(write, delay=2)
        engine.run_until_idle()
        engine.advance(HOUR)
        assert [engine.get(job).status for job in (first, second)] == [JobStatus.COMPLETE] * 2


def test_a_thread_that_waits_for_the_write_lock_lets_time_pass(app):
    order = []

    @app.job()
    async def hold(ctx: JobContext) -> None:
        async with ctx.transaction():
            await asyncio.sleep(2)
        order.append("async")

    @app.job()
    def follow(ctx: JobContext) -> None:
        with ctx.transaction():
            order.append("thread")

    options = WorkerOptions(concurrency=2)
    with virtual_engine([app], options=options, real_seconds=10).blocking() as engine:
        engine.enqueue(hold)
        engine.enqueue(follow)
        engine.run_until_idle()
        assert order == ["async", "thread"]
        assert engine.clock.monotonic() == 2


def test_tables_of_an_app_are_there_and_its_transactions_wake_the_worker():
    clock = VirtualClock(io_grace=0.05)
    engine = virtual_engine([notes.app], clock=clock)

    @asynccontextmanager
    async def lifespan(_):
        yield engine

    async def scenario():
        async with engine:
            working = asyncio.create_task(engine.work())
            await notes.add(engine, 1, "three words here")
            assert (await engine.wait((await engine.list()).jobs[0])).status is JobStatus.COMPLETE
            working.cancel()
            assert await engine.database.fetch("SELECT count(*) FROM notes_words") == [(3,)]

    before, notes.app.lifespan = notes.app.lifespan, lifespan
    try:
        clock.run(scenario())
    finally:
        notes.app.lifespan = before
