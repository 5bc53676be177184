"""An engine in code that is not async."""

import asyncio
import threading

import pytest

from holdfast.bootstrap import Engine
from holdfast.jobs.client.blocking import Blocking
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.validation import ValidationError
from holdfast.jobs.store_port import StoreClosed

app = App("invoices")


@app.job()
def double(ctx, args: int) -> int:
    return args * 2


def test_jobs_are_enqueued_and_run_without_await(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
    with engine.blocking() as run:
        handle = run(engine.enqueue(double, 4))
        run(engine.work(until_idle=True))
        assert run(engine.result(handle)) == 8


def test_many_threads_share_it(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
    ids = []
    with engine.blocking() as run:
        threads = [
            threading.Thread(target=lambda n=n: ids.append(run(engine.enqueue(double, n)).id))
            for n in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {job.id for job in run(engine.list()).jobs} == set(ids)
    assert len(set(ids)) == 10


def test_errors_are_raised_and_it_stays_open(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
    with engine.blocking() as run:
        with pytest.raises(ValidationError):
            run(engine.enqueue(double, "four"))
        assert run(engine.enqueue(double, 4)).created


def test_leaving_it_closes_the_engine_and_ends_its_thread(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
    run = engine.blocking()
    with run:
        assert "holdfast-engine" in {thread.name for thread in threading.enumerate()}
    assert "holdfast-engine" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(RuntimeError, match="open it with `with` first"):
        run(engine.list())
    with pytest.raises(StoreClosed):
        asyncio.run(engine.enqueue(double, 4))


def test_it_is_opened_once_at_a_time(tmp_path):
    run = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]).blocking()
    with run, pytest.raises(RuntimeError, match="is already open"):
        run.__enter__()


def test_an_engine_that_cannot_be_opened_leaves_no_thread(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/no/work.db", apps=[app])
    with pytest.raises(Exception, match="no"), engine.blocking():
        pass
    assert "holdfast-engine" not in {thread.name for thread in threading.enumerate()}


def test_a_call_from_its_own_thread_is_refused(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
    run: Blocking

    async def inside():
        with pytest.raises(RuntimeError, match="in the engine's thread, use await"):
            run(engine.list())
        return "refused"

    with engine.blocking() as run:
        assert run(inside()) == "refused"


def test_an_interrupted_wait_cancels_the_coroutine(tmp_path, monkeypatch):
    engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
    cancelled = threading.Event()

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    def interrupt(*_):
        raise KeyboardInterrupt

    with engine.blocking() as run:
        with monkeypatch.context() as patch:
            patch.setattr("concurrent.futures.Future.result", interrupt)
            with pytest.raises(KeyboardInterrupt):
                run(forever())
        assert cancelled.wait(5)
