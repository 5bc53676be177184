"""One engine per process, and the leases of what runs in it."""

import asyncio
import os
import threading

from tests.support.waiting import Calls, until_sync

from holdfast import BreakerPolicy, Engine
from holdfast.messaging.celery import process_engine
from holdfast.messaging.celery.process_engine import ProcessEngine
from holdfast.outbox import StartState


def test_the_engine_is_opened_once_and_closed_with_the_process(tmp_path):
    made = []

    def make():
        made.append(Engine(f"sqlite:///{tmp_path}/work.db"))
        return made[-1]

    process = ProcessEngine(make)
    threads = [threading.Thread(target=process.get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    process_engine._close_all()
    process.close()
    process.get()
    assert len(made) == 2
    process.close()


def test_a_forked_process_opens_an_engine_of_its_own(postgres_url):
    process = ProcessEngine(lambda: Engine(postgres_url))
    before = process.get()
    before.handling.begin("grading", "r1")
    child = os.fork()
    if child == 0:
        try:
            answer = process.get().handling.begin("grading", "r1").state
            os._exit(0 if process.get() is not before and answer is StartState.RUNNING else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert process.get() is before
    process.close()


def test_the_children_of_a_worker_spread_their_delays_differently():
    process = ProcessEngine(lambda: None)
    drawn = set()
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, str(process.rng.random()).encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader) as answer:
            drawn.add(answer.read())
    assert len(drawn) == 3


def test_the_lease_of_a_running_task_is_extended(tmp_path):
    process = ProcessEngine(lambda: Engine(f"sqlite:///{tmp_path}/work.db"))
    handling = process.get().handling
    claim = handling.begin("grading", "r1", lease_seconds=0.3).claim
    with process.leased(claim, 0.3):
        first = handling.begin("grading", "r1").wait
        until_sync(lambda: handling.begin("grading", "r1").wait > first)
    until_sync(lambda: handling.begin("grading", "r1").state is StartState.CLAIMED)
    process.close()


def test_a_closed_engine_is_not_opened_again_while_nothing_runs(tmp_path):
    made = []

    def make():
        made.append(Engine(f"sqlite:///{tmp_path}/work.db"))
        return made[-1]

    process = ProcessEngine(make)
    claim = process.get().handling.begin("grading", "r1", lease_seconds=0.1).claim
    with process.leased(claim, 0.1):
        turns = Calls(process._leases, "_extend")
    process.close()
    asyncio.run(turns.more(3))
    assert len(made) == 1


def test_the_trial_of_a_running_task_is_extended(tmp_path):
    process = ProcessEngine(lambda: Engine(f"sqlite:///{tmp_path}/work.db"))
    engine = process.get()
    engine.calls.declare("bank", BreakerPolicy(open_for=0.1, trial_calls=1))
    engine.downstreams.hold("bank")
    engine.downstreams.release("bank")
    claim = engine.handling.begin("grading", "r1", lease_seconds=0.3).claim
    with process.leased(claim, 0.3):
        permit = engine.calls.admit("bank", 0.3).permit
        process.keep_trial(claim, "bank", permit)

        def expires_at():
            return engine.downstreams.get("bank").circuit.trials[0].expires_at

        first = expires_at()
        until_sync(lambda: expires_at() > first + 0.3)
        assert engine.calls.admit("bank").permit is None
    until_sync(lambda: engine.calls.admit("bank").permit is not None)
    process.close()


def test_leases_that_cannot_be_extended_are_logged_and_tried_again(tmp_path, caplog):
    broken = threading.Event()

    def make():
        if broken.is_set():
            raise OSError("the disk is gone")
        return Engine(f"sqlite:///{tmp_path}/work.db")

    process = ProcessEngine(make)
    claim = process.get().handling.begin("grading", "r1", lease_seconds=30).claim
    process.close()
    broken.set()
    with process.leased(claim, 0.1):
        until_sync(lambda: "were not extended: the disk is gone" in caplog.text)
        broken.clear()
        until_sync(lambda: process._engine is not None)
    process.close()


def test_work_that_is_needed_once_is_repeated_only_after_a_failure():
    process = ProcessEngine(lambda: None)
    done = []

    def fail():
        raise OSError("not now")

    try:
        process.once("queue", fail)
    except OSError:
        process.once("queue", lambda: done.append(1))
    process.once("queue", lambda: done.append(2))
    assert done == [1]
