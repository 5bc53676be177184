"""Real threads and real time: `call_within` is the one place that cannot be tested without."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import io
import logging
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

from holdfast import cutoff
from holdfast.cutoff import CallCutOff, abandoned_count, call_within

LONG = 30.0


@pytest.fixture(autouse=True)
def quiet_ending(monkeypatch) -> Iterator[None]:
    """Fail a test that leaves an abandoned call running or lets a thread speak."""
    noise: list[object] = []
    monkeypatch.setattr(threading, "excepthook", noise.append)
    monkeypatch.setattr(sys, "unraisablehook", noise.append)
    yield
    until(lambda: abandoned_count() == 0)
    assert noise == []


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < give_up, "it did not happen within 5 s"
        time.sleep(0.001)


def spin() -> None:
    while True:
        pass


class Thing:
    """Something a weak reference can point at."""


class ThingError(Exception):
    pass


def test_the_value_comes_back():
    assert call_within(LONG, lambda: 42) == 42


def test_the_operation_runs_on_a_daemon_thread_of_the_pool():
    thread = call_within(LONG, threading.current_thread)
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_an_idle_thread_is_used_again():
    idents = {call_within(LONG, threading.get_ident) for _ in range(50)}
    assert len(idents) == 1


def test_an_error_comes_back_with_the_operations_traceback():
    def guilty() -> None:
        raise ThingError("boom")

    with pytest.raises(ThingError, match="boom") as caught:
        call_within(LONG, guilty)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["call_within", "guilty"]


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


def test_a_duration_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="nan"):
        call_within(math.nan, spin)


def test_endless_patience_is_allowed():
    assert call_within(math.inf, lambda: "in the end") == "in the end"


def test_a_thread_running_python_ends_soon_after_it_is_cut_off():
    idents: list[int] = []

    def operation() -> None:
        idents.append(threading.get_ident())
        spin()

    with pytest.raises(CallCutOff, match=r"0\.02 s"):
        call_within(0.02, operation)
    until(lambda: idents[0] not in {thread.ident for thread in threading.enumerate()})


def test_the_clean_up_of_a_cut_operation_runs():
    cleaned = threading.Event()

    def operation() -> None:
        try:
            spin()
        finally:
            cleaned.set()

    with pytest.raises(CallCutOff):
        call_within(0.02, operation)
    assert cleaned.wait(5)


def test_a_thread_blocked_in_c_ends_when_that_call_returns():
    gate = threading.Lock()
    gate.acquire()
    went_on: list[bool] = []

    def operation() -> None:
        gate.acquire()
        went_on.append(True)

    with pytest.raises(CallCutOff):
        call_within(0.01, operation)
    assert abandoned_count() == 1
    gate.release()
    until(lambda: abandoned_count() == 0)
    assert went_on == []


def test_an_abandoned_thread_is_never_used_again():
    gate = threading.Lock()
    gate.acquire()
    idents: list[int] = []

    def operation() -> None:
        idents.append(threading.get_ident())
        gate.acquire()

    with pytest.raises(CallCutOff):
        call_within(0.01, operation)
    assert idents[0] not in {call_within(LONG, threading.get_ident) for _ in range(20)}
    gate.release()


def test_an_operation_that_swallows_the_cut_is_dropped_when_it_returns():
    returned: list[bool] = []

    def operation() -> str:
        try:
            spin()
        except BaseException:
            returned.append(True)
        return "too late"

    with pytest.raises(CallCutOff):
        call_within(0.02, operation)
    until(lambda: abandoned_count() == 0)
    assert returned == [True]


def test_a_callback_of_an_event_loop_inside_is_ended_not_logged():
    async def main() -> None:
        asyncio.get_running_loop().call_soon(spin)
        await asyncio.Event().wait()

    with pytest.raises(CallCutOff):
        call_within(0.05, lambda: asyncio.run(main()))
    until(lambda: abandoned_count() == 0)


def test_a_thread_blocked_in_c_does_not_hold_up_a_traced_program():
    """In 3.11 a pending exception makes each traced call spin until its thread has met it."""
    gate = threading.Lock()
    gate.acquire()
    with pytest.raises(CallCutOff):
        call_within(0.01, gate.acquire)

    def traced() -> bool:
        return gate.locked()

    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        still_blocked = traced()
    finally:
        sys.settrace(before)
        gate.release()
    assert still_blocked


@pytest.mark.parametrize("name", ["acquire", "release", "__enter__", "__del__"])
def test_a_thread_is_not_struck_where_it_might_keep_a_lock_or_complain(name):
    leave: list[bool] = []
    left: list[bool] = []
    went_on: list[bool] = []

    def inside() -> None:
        while not leave:
            pass
        left.append(True)

    def operation() -> None:
        inside()
        spin()
        went_on.append(True)

    # The name is what the check goes by, and so what the test has to choose.
    inside.__code__ = inside.__code__.replace(co_name=name)
    with pytest.raises(CallCutOff):
        call_within(0.01, operation)
    assert abandoned_count() == 1
    assert left == []
    leave.append(True)
    until(lambda: abandoned_count() == 0)
    assert left == [True]
    assert went_on == []


def test_a_thread_is_not_struck_below_the_callback_of_a_weak_reference():
    leave, left = threading.Event(), threading.Event()

    class Slow:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            while not leave.is_set():
                pass
            left.set()
            return self is other

    def operation() -> None:
        kept, things = Slow(), weakref.WeakSet[Slow]()
        things.add(kept)
        assert Slow() not in things
        spin()

    with pytest.raises(CallCutOff):
        call_within(0.01, operation)
    assert not left.is_set()
    leave.set()
    until(lambda: abandoned_count() == 0)
    assert left.is_set()


def test_logging_survives_operations_that_are_cut_off_while_they_log():
    logger = logging.getLogger("holdfast.tests.busy")
    logger.propagate = False
    logger.addHandler(logging.StreamHandler(io.StringIO()))

    def operation() -> None:
        while True:
            logger.warning("still at it")

    for _ in range(20):
        with pytest.raises(CallCutOff):
            call_within(0.002, operation)
        assert call_within(5, lambda: logger.warning("and I") or "logged") == "logged"
    until(lambda: abandoned_count() == 0)


def test_a_strike_just_after_the_operation_ends_the_thread_quietly():
    class StruckOutside(cutoff._Worker):
        def _serve(self) -> bool:
            raise cutoff._Abandoned

    worker = StruckOutside()
    cutoff._abandoned.add(worker)
    worker.thread.start()
    worker.thread.join(5)
    assert abandoned_count() == 0


def test_a_program_that_can_start_no_thread_still_gives_up_waiting(monkeypatch):
    gate = threading.Lock()
    gate.acquire()
    call = cutoff._Call(gate.acquire)
    cutoff._hand_over(call)
    until(lambda: call._worker is not None)

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cutoff, "_hand_over", refuse)
    assert call.abandon() is True
    gate.release()


def test_a_call_that_ends_as_it_is_given_up_is_not_struck():
    call = cutoff._Call(int)
    worker = cutoff._Worker()
    call.begin(worker)
    call._state = cutoff._State.ABANDONED
    assert call.finish(0, None) is False
    call._strike(worker)  # would fail, as this worker has no thread to throw at
    assert worker.thread.ident is None


def test_a_cut_outer_call_takes_the_inner_one_along():
    inner_cleaned = threading.Event()

    def inner() -> None:
        try:
            spin()
        finally:
            inner_cleaned.set()

    began = time.monotonic()
    with pytest.raises(CallCutOff, match=r"0\.03 s"):
        call_within(0.03, lambda: call_within(LONG, inner))
    assert inner_cleaned.wait(5)
    until(lambda: abandoned_count() == 0)
    assert time.monotonic() - began < LONG / 2


def test_a_cut_inner_call_leaves_the_outer_one_running():
    def outer() -> str:
        try:
            call_within(0.01, spin)
        except CallCutOff:
            return "outer went on"
        return "inner was not cut"

    assert call_within(LONG, outer) == "outer went on"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise, also where the shell started us in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_caller_abandons_its_call():
    cleaned = threading.Event()
    started = threading.Event()

    def operation() -> None:
        try:
            started.set()
            spin()
        finally:
            cleaned.set()

    def interrupt() -> None:
        started.wait(5)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        call_within(LONG, operation)
    helper.join()
    assert cleaned.wait(5)


def test_a_call_that_was_given_up_before_it_began_never_runs():
    ran: list[bool] = []
    call = cutoff._Call(lambda: ran.append(True))
    assert call.abandon() is True
    cutoff._hand_over(call)
    until(lambda: len(cutoff._idle) > 0)
    assert call_within(LONG, lambda: "the thread is sound") == "the thread is sound"
    assert ran == []


def test_no_result_is_kept_alive():
    result = call_within(LONG, Thing)
    gone = weakref.ref(result)
    del result
    assert gone() is None


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
        assert run()() is None
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
    assert gone() is None


def test_a_thread_that_is_idle_for_too_long_ends(monkeypatch):
    monkeypatch.setattr(cutoff, "IDLE_SECONDS", 0.005)
    monkeypatch.setattr(cutoff, "_idle", [])
    thread = call_within(LONG, threading.current_thread)
    thread.join(5)
    assert not thread.is_alive()
    assert cutoff._idle == []
    assert call_within(LONG, threading.current_thread) is not thread


def test_a_thread_that_retires_as_it_is_chosen_is_passed_over(monkeypatch):
    retired = cutoff._Worker()
    retired._retired = True
    monkeypatch.setattr(cutoff, "_idle", [retired])
    assert call_within(LONG, threading.current_thread) is not retired.thread


def test_a_chosen_thread_whose_call_never_comes_retires(monkeypatch):
    """As when its caller is interrupted between choosing the thread and handing over."""
    monkeypatch.setattr(cutoff, "IDLE_SECONDS", 0.005)
    monkeypatch.setattr(cutoff, "_idle", [])
    thread = call_within(LONG, threading.current_thread)
    worker = cutoff._idle.pop()
    thread.join(5)
    assert not thread.is_alive()
    assert worker.offer(cutoff._Call(spin)) is False


def test_a_call_handed_over_as_patience_ends_is_not_lost():
    worker = cutoff._Worker()
    call = cutoff._Call(int)

    class WakeThatComesTooLate:
        def __init__(self) -> None:
            self.answers = [False, True]

        def acquire(self, *_: object) -> bool:
            if self.answers == [False, True]:
                worker.offer(call)
            return self.answers.pop(0)

        def release(self) -> None: ...

    worker._wake = WakeThatComesTooLate()  # type: ignore[assignment]
    assert worker._next() is call


def test_the_number_of_idle_threads_is_bounded(monkeypatch):
    monkeypatch.setattr(cutoff, "MAX_IDLE_THREADS", 2)
    monkeypatch.setattr(cutoff, "_idle", [])
    together = threading.Barrier(6)
    threads: list[threading.Thread] = []

    def operation() -> None:
        threads.append(threading.current_thread())
        together.wait(5)

    with ThreadPoolExecutor(6) as callers:
        for future in [callers.submit(call_within, LONG, operation) for _ in range(6)]:
            future.result()
    until(lambda: sum(thread.is_alive() for thread in threads) == len(cutoff._idle))
    # Threads that finish at the same instant may each see the last free place.
    assert len(cutoff._idle) < 6


def test_calls_side_by_side_do_not_wait_for_each_other():
    together = threading.Barrier(10)
    with ThreadPoolExecutor(10) as callers:
        calls = [callers.submit(call_within, LONG, lambda: together.wait(5)) for _ in range(10)]
        assert sorted(call.result() for call in calls) == list(range(10))


def test_results_on_the_edge_of_the_cut_are_either_right_or_cut():
    """Finishing and abandoning race here; neither may spoil a later call on any thread."""
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
    until(lambda: abandoned_count() == 0)


def test_a_forked_child_starts_with_an_empty_pool():
    script = textwrap.dedent(
        """
        import os, threading
        from holdfast.cutoff import CallCutOff, abandoned_count, call_within
        gate = threading.Lock(); gate.acquire()
        call_within(5, int)
        try:
            call_within(0.01, gate.acquire)
        except CallCutOff:
            pass
        assert abandoned_count() == 1
        child = os.fork()
        if child == 0:
            fine = abandoned_count() == 0 and call_within(5, lambda: "child") == "child"
            os._exit(0 if fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert call_within(5, lambda: "parent") == "parent"
        print("both work")
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.stdout, done.stderr) == ("both work\n", "")


def test_a_program_may_end_while_a_call_is_abandoned():
    script = textwrap.dedent(
        """
        import time
        from holdfast.cutoff import CallCutOff, call_within
        try:
            call_within(0.01, lambda: time.sleep(30))
        except CallCutOff:
            print("cut")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "cut\n", "")
