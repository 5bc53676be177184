"""`call_within` with real threads and real time."""

import contextvars
import gc
import math
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.cutoff import CallCutOff, DaemonThreads, call_within

LONG = 30.0


@pytest.fixture(autouse=True)
def no_error_ends_a_thread(monkeypatch) -> Iterator[None]:
    """Fail a test in which a thread ends with an exception."""
    noise: list[object] = []
    monkeypatch.setattr(threading, "excepthook", noise.append)
    yield
    assert noise == []


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.001)


class Thing:
    """Something a weak reference can point at."""


class ThingError(Exception):
    pass


def test_the_value_is_returned():
    assert call_within(LONG, lambda: 42) == 42


def test_the_operation_runs_on_a_daemon_thread():
    thread = call_within(LONG, threading.current_thread)
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_an_idle_thread_is_used_again():
    assert len({call_within(LONG, threading.get_ident) for _ in range(50)}) == 1


def test_an_error_is_raised_with_the_operations_traceback():
    def guilty() -> None:
        raise ThingError("boom")

    with pytest.raises(ThingError, match="boom") as caught:
        call_within(LONG, guilty)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-3:] == ["call_within", "run", "guilty"]


def test_an_operation_that_is_not_callable_is_an_error_of_the_caller():
    with pytest.raises(TypeError, match="not callable"):
        call_within(LONG, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_base_exceptions_of_the_operation_reach_the_caller(error):
    def operation() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        call_within(LONG, operation)
    assert caught.value is error


def test_the_operation_sees_the_callers_context_and_cannot_change_it():
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("callers")

    def operation() -> str:
        seen = variable.get()
        variable.set("operations")
        return seen

    assert call_within(LONG, operation) == "callers"
    assert variable.get() == "callers"


@pytest.mark.parametrize("seconds", [0, -1, -math.inf])
def test_with_no_time_left_the_operation_is_not_started(seconds):
    started: list[bool] = []
    with pytest.raises(CallCutOff, match="before it began"):
        call_within(seconds, lambda: started.append(True))
    assert started == []


def test_a_duration_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="nan"):
        call_within(math.nan, int)


def test_an_endless_limit_is_allowed():
    assert call_within(math.inf, lambda: "in the end") == "in the end"


def test_the_caller_of_a_cut_off_call_goes_on_at_once_and_the_thread_runs_to_its_end():
    gate, went_on = threading.Event(), threading.Event()

    def operation() -> str:
        gate.wait()
        went_on.set()
        return "too late"

    with pytest.raises(CallCutOff, match=r"0\.01 s"):
        call_within(0.01, operation)
    assert not went_on.is_set()
    gate.set()
    assert went_on.wait(LONG), "nothing is thrown into the thread"


def test_a_thread_that_is_still_busy_is_not_used_for_another_call():
    gate = threading.Event()
    idents: list[int] = []

    def operation() -> None:
        idents.append(threading.get_ident())
        gate.wait()

    with pytest.raises(CallCutOff):
        call_within(0.01, operation)
    until(lambda: bool(idents))
    assert idents[0] not in {call_within(LONG, threading.get_ident) for _ in range(20)}
    gate.set()


def test_a_late_error_is_dropped():
    gate, ended = threading.Event(), threading.Event()

    def operation() -> None:
        gate.wait()
        ended.set()
        raise ThingError

    with pytest.raises(CallCutOff):
        call_within(0.01, operation)
    gate.set()
    assert ended.wait(LONG)
    assert call_within(LONG, lambda: "the next call works") == "the next call works"


def test_a_cut_off_outer_call_does_not_wait_for_the_inner_one():
    gate, inner_ended = threading.Event(), threading.Event()

    def inner() -> None:
        gate.wait()
        inner_ended.set()

    with pytest.raises(CallCutOff, match=r"0\.03 s"):
        call_within(0.03, lambda: call_within(LONG, inner))
    assert not inner_ended.is_set()
    gate.set()
    assert inner_ended.wait(LONG)


def test_a_cut_off_inner_call_leaves_the_outer_one_running():
    gate = threading.Event()

    def outer() -> str:
        with pytest.raises(CallCutOff):
            call_within(0.01, gate.wait)
        return "outer went on"

    assert call_within(LONG, outer) == "outer went on"
    gate.set()


def test_an_interrupted_caller_abandons_its_call():
    started, gate, ended = threading.Event(), threading.Event(), threading.Event()
    interrupted = threading.Event()

    def operation() -> None:
        started.set()
        gate.wait()
        ended.set()

    def on_signal(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def interrupt() -> None:
        started.wait(LONG)
        # A signal just before the caller sleeps would be handled only afterwards.
        while not interrupted.wait(0.01):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            call_within(LONG, operation)
        helper.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not ended.is_set()
    gate.set()
    assert ended.wait(LONG)


def test_a_program_that_cannot_start_a_thread_gets_a_clear_error(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    class Task:
        def run(self) -> None:
            raise AssertionError

        announce = run

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        DaemonThreads("t").start(Task())


def test_no_result_is_kept_alive():
    result = call_within(LONG, Thing)
    gone = weakref.ref(result)
    del result
    until(lambda: gone() is None)


def test_no_error_is_kept_alive_and_no_cycle_is_made():
    def operation() -> None:
        raise ThingError

    def run() -> weakref.ref[ThingError]:
        try:
            call_within(LONG, operation)
        except ThingError as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    gc.disable()
    try:
        gone = run()
        until(lambda: gone() is None)
    finally:
        gc.enable()


def test_no_operation_is_kept_alive():
    class Operation:
        def __call__(self) -> int:
            return 1

    operation = Operation()
    gone = weakref.ref(operation)
    call_within(LONG, operation)
    del operation
    until(lambda: gone() is None)


class Recorded:
    """A task that notes its thread and waits for others."""

    def __init__(self, together: threading.Barrier) -> None:
        self.together = together
        self.done = threading.Event()
        self.thread: threading.Thread | None = None

    def run(self) -> None:
        self.thread = threading.current_thread()
        self.together.wait(LONG)

    def announce(self) -> None:
        self.done.set()


def start_together(pool: DaemonThreads, count: int) -> list[threading.Thread]:
    """Run `count` tasks at once and return their threads."""
    together = threading.Barrier(count)
    tasks = [Recorded(together) for _ in range(count)]
    for task in tasks:
        pool.start(task)
    assert all(task.done.wait(LONG) for task in tasks)
    return [task.thread for task in tasks if task.thread is not None]


def test_tasks_at_a_time_have_a_thread_each():
    pool = DaemonThreads("t")
    assert len(set(start_together(pool, 5))) == 5
    pool.close()


def test_the_number_of_idle_threads_is_bounded():
    pool = DaemonThreads("t", max_idle=0)
    (thread,) = start_together(pool, 1)
    thread.join(LONG)
    assert not thread.is_alive()


def test_closing_ends_idle_threads_and_busy_ones_after_their_task():
    pool, together = DaemonThreads("t"), threading.Barrier(2)
    threads = start_together(pool, 3)
    task = Recorded(together)
    pool.start(task)
    pool.close()
    together.wait(LONG)
    for thread in threads:
        thread.join(LONG)
    assert not any(thread.is_alive() for thread in threads)


def test_calls_side_by_side_do_not_wait_for_each_other():
    together = threading.Barrier(10)
    with ThreadPoolExecutor(10) as callers:
        calls = [callers.submit(call_within, LONG, lambda: together.wait(5)) for _ in range(10)]
        assert sorted(call.result() for call in calls) == list(range(10))


def test_results_on_the_edge_of_the_limit_are_either_right_or_cut_off():
    """A race between a result and the timeout; neither may affect a later call."""
    seen = {"right": 0, "cut": 0}

    def caller(first: int) -> None:
        for number in range(first, first + 120):

            def operation(number: int = number) -> int:
                time.sleep(0.001)
                return number

            try:
                assert call_within(0.00105 + number % 7 * 0.00002, operation) == number
                seen["right"] += 1
            except CallCutOff:
                seen["cut"] += 1
            assert call_within(LONG, lambda: "sound") == "sound"

    with ThreadPoolExecutor(2) as callers:
        for future in [callers.submit(caller, first) for first in (0, 1000)]:
            future.result()
    assert sum(seen.values()) == 240


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )


def test_a_forked_child_does_not_use_the_threads_of_its_parent():
    done = run_script(
        """
        import os, threading
        from holdfast.cutoff import call_within
        call_within(5, int)
        child = os.fork()
        if child == 0:
            os._exit(0 if call_within(5, lambda: "child") == "child" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert call_within(5, lambda: "parent") == "parent"
        print("both work")
        """
    )
    assert (done.stdout, done.stderr) == ("both work\n", "")


def test_a_program_ends_while_an_abandoned_call_never_returns():
    done = run_script(
        """
        import threading
        from holdfast.cutoff import CallCutOff, call_within
        try:
            call_within(0.01, threading.Event().wait)
        except CallCutOff:
            print("cut off")
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "cut off\n", "")
