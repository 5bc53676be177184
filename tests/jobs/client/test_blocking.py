"""An engine in code that is not async."""

import asyncio
import functools
import inspect
import os
import signal
import threading
import time

import apsw
import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session
from tests.support.waiting import SOON, until_sync

import holdfast
from holdfast.bootstrap import Engine
from holdfast.jobs.client.engine_thread import EngineThread
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.validation import ValidationError
from holdfast.jobs.exceptions import InvalidState, JobFailed
from holdfast.jobs.model import JobStatus
from holdfast.jobs.store_port import StoreClosed
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.resilience.policy import RetryPolicy

app = App("invoices")


@app.job()
def double(ctx, args: int) -> int:
    return args * 2


@app.job(retry=RetryPolicy(max_attempts=1), downstream=Downstream("bank"))
def fail(ctx) -> None:
    raise ConnectionError("no answer")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work.db"


@pytest.fixture
def engine(path):
    with Engine(f"sqlite:///{path}", apps=[app]).blocking() as engine:
        yield engine


def engine_threads():
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-engine"]


# -- its methods ---------------------------------------------------------------------------------


def test_jobs_are_enqueued_and_run_without_await(engine):
    handle = engine.enqueue(double, 4)
    engine.work(until_idle=True)
    assert engine.result(handle) == 8
    assert engine.get(handle).status is JobStatus.COMPLETE
    assert [event.name for event in engine.events(handle)] == ["queued", "processing", "complete"]
    assert len(engine.attempts(handle)) == 1
    assert engine.list().jobs[0].id == handle.id
    assert engine.wait(handle, 1).id == handle.id
    assert set(engine.kinds) == {"invoices.double", "invoices.fail"}


def test_many_jobs_are_enqueued_at_once(engine):
    first, second = engine.enqueue_many([JobRequest(double, 1), JobRequest(double, 2)])
    assert engine.cancel(first).status is JobStatus.CANCELLED
    engine.work(until_idle=True, concurrency=1, queues=["default"])
    assert engine.result(second) == 4
    with pytest.raises(InvalidState):
        engine.retry(second)


def test_dead_letters_and_downstreams_are_there_too(engine):
    handle = engine.enqueue(fail)
    engine.work(until_idle=True)
    with pytest.raises(JobFailed):
        engine.result(handle)
    (letter,), _ = engine.dead_letters.list()
    assert letter.job.id == handle.id
    assert engine.dead_letters.requeue(dry_run=True).matched == 1
    assert engine.downstreams.hold("bank").circuit.held
    assert engine.downstreams.states() == {"bank": engine.downstreams.state("bank")}
    assert engine.stats().dead_letters == 1


def test_queues_and_kinds_are_paused_and_workers_listed(engine):
    assert engine.queues.pause("default").paused
    assert engine.kinds.pause(double).paused
    assert "default" in [queue.name for queue in engine.queues.list() if queue.paused]
    assert (len(engine.kinds), engine.kinds[double.kind.name]) == (
        len(list(engine.kinds)),
        double.kind,
    )
    engine.queues.resume("default")
    assert not engine.kinds.resume(double).paused
    assert engine.workers.list() == ()


def test_every_coroutine_method_has_its_blocking_form(path):
    """Those of the engine, and those of its parts, such as `dead_letters`."""
    engine = Engine(f"sqlite:///{path}", apps=[app])
    blocking = engine.blocking()
    parts = {name for name in vars(engine) if not name.startswith("_")}
    pairs = [(engine, blocking)]
    pairs += [
        (getattr(engine, name), getattr(blocking, name))
        for name in parts - {"store", "registry", "clock"}
    ]
    assert len(pairs) >= 3
    for mirrored, own in pairs:
        for name, method in inspect.getmembers(mirrored, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                found = getattr(own, name)
                expected = inspect.signature(method).parameters.keys()
                assert inspect.signature(found).parameters.keys() == expected, name
                assert not inspect.iscoroutinefunction(found), name


def test_errors_are_raised_and_it_stays_open(engine):
    with pytest.raises(ValidationError):
        engine.enqueue(double, "four")
    assert engine.enqueue(double, 4).created


def test_many_threads_share_it(engine):
    ids = []
    threads = [
        threading.Thread(target=lambda n=n: ids.append(engine.enqueue(double, n).id))
        for n in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {job.id for job in engine.list().jobs} == set(ids)
    assert len(set(ids)) == 10


# -- the caller's connection -----------------------------------------------------------------------


@pytest.fixture
def on_postgres(postgres_url):
    with Engine(postgres_url, apps=[app]).blocking() as engine:
        yield engine


def orders_in(url):
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT number FROM orders ORDER BY number").fetchall()


def test_a_job_is_committed_and_rolled_back_with_the_callers_rows(on_postgres, postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE orders (number int)")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        on_postgres.enqueue(double, 1, id="one", connection=connection)
    orm = sqlalchemy.create_engine(postgres_url.replace("postgresql", "postgresql+psycopg", 1))
    with Session(orm) as session:
        session.execute(sqlalchemy.text("INSERT INTO orders VALUES (2)"))
        on_postgres.enqueue(double, 2, id="two", connection=session)
        session.rollback()
    orm.dispose()
    assert on_postgres.get("one") is not None
    assert on_postgres.get("two") is None
    assert orders_in(postgres_url) == [(1,)]


def test_statements_run_in_the_callers_thread(engine, path):
    threads = set()
    connection = apsw.Connection(str(path))
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda _: threads.add(threading.get_ident()))
    connection.execute("BEGIN IMMEDIATE")
    engine.enqueue(double, 1, id="one", connection=connection)
    connection.execute("COMMIT")
    connection.close()
    assert threads == {threading.get_ident()}
    assert engine.get("one") is not None


def test_a_caller_that_waits_for_anothers_lock_holds_up_nobody(on_postgres, postgres_url):
    """B waits in its enqueue for A's transaction, and A enqueues once more before it commits."""
    with psycopg.connect(postgres_url) as a, psycopg.connect(postgres_url) as b:
        first = on_postgres.enqueue(double, 1, dedup_key="same", connection=a)
        found = []

        def enqueue_the_same():
            found.append(on_postgres.enqueue(double, 1, dedup_key="same", connection=b))
            b.commit()

        thread = threading.Thread(target=enqueue_the_same)
        thread.start()
        until_sync(lambda: b.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE)
        on_postgres.enqueue(double, 2, connection=a)
        a.commit()
        thread.join()
    assert [(handle.id, handle.created) for handle in found] == [(first.id, False)]


def test_an_error_of_a_statement_reaches_the_caller(on_postgres, postgres_url):
    with psycopg.connect(postgres_url) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM missing")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            on_postgres.enqueue(double, 1, connection=connection)


def test_an_asynchronous_connection_is_refused(on_postgres, postgres_url):
    async def connect():
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await asyncio.to_thread(on_postgres.enqueue, double, 1, connection=connection)
        finally:
            await connection.close()

    with pytest.raises(TypeError, match="takes a connection that blocks"):
        asyncio.run(connect())


# -- opening and closing ---------------------------------------------------------------------------


def test_leaving_it_closes_the_engine_and_ends_its_thread(path):
    engine = Engine(f"sqlite:///{path}", apps=[app])
    blocking = engine.blocking()
    with blocking as entered:
        assert entered is blocking
        assert len(engine_threads()) == 1
    assert engine_threads() == []
    with pytest.raises(RuntimeError, match="open the blocking engine first"):
        blocking.list()
    with pytest.raises(StoreClosed):
        asyncio.run(engine.enqueue(double, 4))


def test_a_program_without_a_block_opens_and_closes_it(path):
    engine = holdfast.Engine(f"sqlite:///{path}", apps=[app]).blocking()
    assert engine.open() is engine
    engine.enqueue(double, 4)
    engine.close()
    with engine:
        assert len(engine.list().jobs) == 1


def test_it_is_opened_once_at_a_time(engine):
    with pytest.raises(RuntimeError, match="is already open"):
        engine.open()


def test_an_engine_that_cannot_be_opened_leaves_no_thread(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/no/work.db", apps=[app])
    with pytest.raises(Exception, match="no"), engine.blocking():
        pass
    assert engine_threads() == []


def test_closing_it_ends_the_calls_of_other_threads(path, monkeypatch):
    waiting = threading.Event()
    awaited = Engine(f"sqlite:///{path}", apps=[app])
    engine = awaited.blocking().open()
    handle = engine.enqueue(double, 4)
    errors, wait_for_changes = [], awaited.store.wait_for_changes

    async def noted(*arguments):
        waiting.set()
        return await wait_for_changes(*arguments)

    monkeypatch.setattr(awaited.store, "wait_for_changes", noted)

    def wait():
        try:
            engine.wait(handle)
        except StoreClosed as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(SOON)
    engine.close()
    thread.join(SOON)
    assert not thread.is_alive()
    assert len(errors) == 1


@pytest.mark.parametrize("seconds", [SOON, 0.0])
def test_closing_it_stops_a_worker_that_runs_in_another_thread(path, seconds):
    """Its attempt may finish within `shutdown_seconds`, and is released then."""
    own, started, ended = App("own"), threading.Event(), threading.Event()

    @own.job()
    async def wait(ctx) -> None:
        started.set()
        while not ended.is_set():
            await asyncio.sleep(0.01)

    engine = Engine(f"sqlite:///{path}", apps=[own]).blocking().open()
    handle = engine.enqueue(wait)
    options = WorkerOptions(shutdown_seconds=seconds)
    working = threading.Thread(target=engine.work, kwargs={"options": options})
    working.start()
    assert started.wait(SOON)
    closing = threading.Thread(target=engine.close)
    closing.start()
    if seconds:
        ended.set()
    closing.join(SOON)
    working.join(SOON)
    assert not working.is_alive()
    with engine:
        job = engine.get(handle)
        outcomes = [attempt.outcome for attempt in engine.attempts(handle)]
    expected = ("complete", ["complete"]) if seconds else ("queued", ["released"])
    assert (job.status, outcomes) == expected


def test_calls_that_meet_its_closing_end_all_the_same():
    for _ in range(30):
        thread, outcomes = EngineThread(Opened()), []

        async def nothing():
            return "done"

        def call(thread=thread, outcomes=outcomes, nothing=nothing):
            try:
                while True:
                    thread.run(nothing())
            except (RuntimeError, StoreClosed) as error:
                outcomes.append(error)

        thread.open()
        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        thread.close()
        for caller in callers:
            caller.join(30)
        assert len(outcomes) == 4


# -- the engine's thread -------------------------------------------------------------------------


def test_a_call_from_its_own_thread_is_refused(path):
    nesting = App("nesting")

    @nesting.job()
    async def nested(ctx) -> str:
        with pytest.raises(RuntimeError, match="in the engine's thread"):
            blocking.list()
        return "refused"

    with Engine(f"sqlite:///{path}", apps=[nesting]).blocking() as blocking:
        handle = blocking.enqueue(nested)
        blocking.work(until_idle=True)
        assert blocking.result(handle) == "refused"


class Opened:
    """A context manager that counts how often it is open."""

    open = 0

    async def __aenter__(self):
        self.open += 1

    async def __aexit__(self, *_):
        self.open -= 1


class Interrupted(BaseException):
    """Raised by a signal, as Ctrl-C raises KeyboardInterrupt, which would end pytest."""


@pytest.fixture
def interrupt_when():
    """A function that interrupts the main thread once a condition holds."""

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield functools.partial(send_when, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def send_when(number, condition):
    def send():
        until_sync(condition)
        os.kill(os.getpid(), number)

    threading.Thread(target=send).start()


def test_an_interrupted_call_is_cancelled_and_has_ended(interrupt_when):
    thread, steps = EngineThread(Opened()), []

    async def forever():
        steps.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            steps.append("ended")

    thread.open()
    interrupt_when(lambda: steps)
    with pytest.raises(Interrupted):
        thread.run(forever())
    assert steps == ["began", "ended"]
    thread.close()


class InterruptedLoop(asyncio.SelectorEventLoop):
    """An event loop whose next call from another thread is interrupted, as by a signal."""

    interrupted = None

    def call_soon_threadsafe(self, *args, **options):
        when, self.interrupted = self.interrupted, None
        if when == "before":
            raise Interrupted
        handle = super().call_soon_threadsafe(*args, **options)
        if when == "after":
            raise Interrupted
        return handle


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_call_that_is_interrupted_while_it_starts_has_ended(when):
    loop, steps = InterruptedLoop(), []
    thread = EngineThread(Opened(), lambda: loop)

    async def forever():
        steps.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("ended")

    thread.open()
    loop.interrupted = when
    with pytest.raises(Interrupted):
        thread.run(forever())
    assert steps in ([], ["began", "ended"])
    thread.close()


def test_an_interrupted_worker_releases_its_jobs(path, interrupt_when):
    started = threading.Event()
    slow = App("slow")

    @slow.job()
    async def sleep(ctx) -> None:
        started.set()
        await asyncio.sleep(600)

    with Engine(f"sqlite:///{path}", apps=[slow]).blocking() as engine:
        handle = engine.enqueue(sleep)
        interrupt_when(started.is_set)
        with pytest.raises(Interrupted):
            engine.work()
        assert engine.get(handle).status is JobStatus.QUEUED


def test_a_signal_stops_a_worker_that_asked_for_it(path):
    running = threading.Event()
    slow = App("slow")

    @slow.job()
    def work(ctx) -> str:
        running.set()
        time.sleep(0.2)
        return "finished"

    before = signal.getsignal(signal.SIGTERM)
    with Engine(f"sqlite:///{path}", apps=[slow]).blocking() as engine:
        handle = engine.enqueue(work)
        send_when(signal.SIGTERM, running.is_set)
        engine.work(stop_on_signals=True)
        assert engine.result(handle) == "finished"
    assert signal.getsignal(signal.SIGTERM) is before
