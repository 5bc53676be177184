"""An exception that interrupts a thread at any point loses no turn and blocks nothing."""

import asyncio
import dis
import functools
import gc
import inspect
import itertools
import os
import subprocess
import sys
import textwrap
from contextvars import copy_context
from pathlib import Path

import pytest

import holdfast.resilience
from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import Permanent
from holdfast.resilience.active_call import ACTIVE
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.call import GateTurn
from holdfast.resilience.drivers import drive, drive_async
from holdfast.resilience.limits import AbandonedThreads, ConcurrencyGate
from holdfast.resilience.policy import BreakerPolicy, ConcurrencyLimit, RetryPolicy
from holdfast.resilience.result import Ended, StopReason
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock

OURS = str(Path(holdfast.resilience.__file__).parent)
RETURNS = dis.opmap["RETURN_VALUE"]
RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE
DOWN = ConnectionRefusedError("down")


class Struck(BaseException):
    """The interrupting exception, like KeyboardInterrupt."""


class _Strike:
    """Raise `Struck` at the `moment`-th point of our code where CPython handles signals; catch it.

    These points are the start of a function and the return of a call: the events of a profiler.
    `came` is False if there are fewer such points.
    """

    def __init__(self, moment: int) -> None:
        self._left = moment
        self.came = False

    def __enter__(self):
        self._before = sys.getprofile(), sys.unraisablehook
        sys.unraisablehook = lambda _: None  # raised in a destructor, where it cannot propagate
        sys.setprofile(self._profile)
        return self

    def __exit__(self, kind, *_):
        sys.setprofile(self._before[0])
        sys.unraisablehook = self._before[1]
        return kind is Struck

    def _profile(self, frame, event, _):
        code = frame.f_code
        if event == "c_call" or not _is_ours(frame):
            return
        if event == "return" and code.co_code[frame.f_lasti] != RETURNS:
            return  # it yields, or an error already propagates
        if event == "call" and code.co_flags & RESUMED:
            return  # it may be resumed in the middle, where the exception could not be caught
        self._left -= 1
        if self._left < 0:
            sys.setprofile(None)
            self.came = True
            raise Struck


def _is_ours(frame) -> bool:
    if frame.f_code.co_filename == "<string>":  # the constructor of a dataclass
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(OURS)


class _Holder:
    """A caller that has a turn or waits for one."""


# -- the gate ----------------------------------------------------------------------------------


def _line(size: int):
    """Return a gate for one caller, its holder, the waiting callers and the woken ones."""
    gate, first = ConcurrencyGate(ConcurrencyLimit(1)), _Holder()
    assert gate.try_enter(first)
    woken: list[int] = []
    holders = [_Holder() for _ in range(size)]
    tickets = [
        gate.queue(holder, functools.partial(woken.append, number))
        for number, holder in enumerate(holders)
    ]
    return gate, first, list(zip(holders, tickets, strict=True)), woken


def test_an_interrupt_at_any_line_of_leaving_passes_the_turn_to_the_next():
    for moment in itertools.count():
        gate, first, holders, woken = _line(2)
        with _Strike(moment) as strike:
            gate.leave(first)
        gate.leave(first)  # as the end of every call does again
        assert set(woken) == {0}, moment
        for number, (holder, ticket) in enumerate(holders):
            assert ticket.granted
            assert gate.running == 1
            assert set(woken) == set(range(number + 1)), moment
            gate.leave(holder)
        assert gate.running == 0
        if not strike.came:
            break
    assert moment > 5


def _wait(gate, holder, seconds, asynchronous):
    def steps():
        granted = yield GateTurn(gate, holder, seconds)
        return Ended(granted, None, 0, 0.0, StopReason.SUCCESS, ())

    if asynchronous:
        clock = VirtualClock()
        return clock.run(drive_async(steps(), lambda: asyncio.sleep(0), clock)).unwrap()
    return drive(steps(), lambda: None, SYSTEM_CLOCK, AbandonedThreads(1)).unwrap()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_an_interrupt_at_any_line_of_waiting_leaves_no_entry_in_the_queue(free, asynchronous):
    for moment in itertools.count():
        gate, first, _, _ = _line(0)
        if free:
            gate.leave(first)
        waiting, patient = _Holder(), _Holder()
        with _Strike(moment) as strike:
            _wait(gate, waiting, 0, asynchronous)
        gate.leave(waiting)
        ticket = gate.queue(patient, lambda: None)
        gate.leave(first)
        assert ticket.granted, moment
        gate.leave(patient)
        assert gate.running == 0
        if not strike.came:
            break
    assert moment > 5


def test_a_turn_ends_with_its_holder_and_goes_to_those_in_line_first():
    gate, first, ((_, ticket),), woken = _line(1)
    del first
    gc.collect()
    assert gate.running == 0
    newcomer = _Holder()
    assert not gate.try_enter(newcomer)
    assert ticket.granted
    assert woken == [0]


# -- whole calls -------------------------------------------------------------------------------

POLICIES = {
    "plain": RetryPolicy(backoff=Exponential(base=0), breaker=BreakerPolicy(1, trial_calls=1)),
    "limited": RetryPolicy(
        backoff=Exponential(base=0),
        concurrency=ConcurrencyLimit(1, max_wait=0),
        breaker=BreakerPolicy(1, trial_calls=1),
    ),
}
ENDINGS = {
    "success": ["value"],
    "failure": [DOWN],
    "permanent": [Permanent("PARSE_ERROR")],
}


def _call(service, policy, outcomes, moment, asynchronous):
    """Make a call that is interrupted at `moment`; return result, interruption, active calls."""
    script = iter(outcomes)

    def operation():
        outcome = next(script)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def operation_async():
        return operation()

    def blocking():
        result = None
        with _Strike(moment) as strike:
            result = service.execute_sync(operation, policy, "svc")
        return result, strike, ACTIVE.get()

    async def coroutine():
        result = None
        with _Strike(moment) as strike:
            result = await service.execute(operation_async, policy, "svc")
        return result, strike, ACTIVE.get()

    return VirtualClock().run(coroutine()) if asynchronous else copy_context().run(blocking)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_interrupt_at_any_line_of_a_call_does_not_block_the_next_one(kind, ending, asynchronous):
    policy, clock = POLICIES[kind], VirtualClock()
    for moment in itertools.count():
        service = RetryService(clock=clock)
        service.execute_sync(lambda: 1, policy, "svc")
        _, strike, call = _call(service, policy, ENDINGS[ending], moment, asynchronous)
        assert call is None or not call.under_way, moment
        gate, breaker = service._operations["svc"].gate, service._operations["svc"].breaker
        assert gate is None or gate.running == 0, moment
        assert breaker.closed is (breaker._circuit.state is CircuitState.CLOSED), moment
        assert breaker.permit.generation == breaker._circuit.generation, moment
        clock.advance(60)
        result = service.execute_sync(lambda: "next", policy, "svc")
        assert result.value == "next", moment
        assert service.circuit_state("svc").state is CircuitState.CLOSED, moment
        if not strike.came:
            break
    assert moment > 5


# -- interrupts at any moment: in a program of its own, since they strike a coverage tracer too ----


def _run(program, *arguments):
    environment = {name: value for name, value in os.environ.items() if "COV" not in name}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


CUT_AGAIN_AND_AGAIN = """
    import gc, time
    from holdfast import ConcurrencyLimit, RetryPolicy, RetryService, cancelled

    service = RetryService()
    outer = RetryPolicy(max_attempts=1, attempt_timeout=0.004)
    inner = RetryPolicy(max_attempts=1, concurrency=ConcurrencyLimit(50, max_wait=0))

    def busy():
        while not cancelled():
            service.execute_sync(lambda: None, inner, "inner")

    for _ in range(60):
        assert not service.execute_sync(busy, outer, "outer").ok
    gate = service._operations["inner"].gate
    deadline = time.monotonic() + 10
    while gate.running and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.001)
    assert gate.running == 0, gate.running
    assert service.execute_sync(lambda: "next", inner, "inner").value == "next"
    print("done")
"""

INTERRUPTED = """
    import gc, signal
    from holdfast import ConcurrencyLimit, RetryPolicy, RetryService
    from holdfast.resilience.active_call import ACTIVE

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    service = RetryService()
    policy = RetryPolicy(max_attempts=1, concurrency=ConcurrencyLimit(50, max_wait=0))
    came = 0
    for number in range(100):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + number * 1e-6)
            while True:
                service.execute_sync(lambda: None, policy, "svc")
        except KeyboardInterrupt:
            came += 1
    gc.collect()
    gate, call = service._operations["svc"].gate, ACTIVE.get()
    assert came == 100, came
    assert gate.running == 0, gate.running
    assert call is None or not call.under_way
    assert service.execute_sync(lambda: "next", policy, "svc").value == "next"
    assert not ACTIVE.get().under_way
    print("done")
"""

INTERRUPTED_IN_LINE = """
    import signal, threading
    from holdfast import ConcurrencyLimit, RetryPolicy, RetryService

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    service = RetryService()
    policy = RetryPolicy(max_attempts=1, concurrency=ConcurrencyLimit(1))
    inside, release = threading.Event(), threading.Event()

    def held():
        inside.set()
        release.wait(20)

    holder = threading.Thread(target=service.execute_sync, args=(held, policy, "svc"))
    holder.start()
    assert inside.wait(20)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        service.execute_sync(lambda: None, policy, "svc")
    except KeyboardInterrupt:
        release.set()
    holder.join(20)
    gate = service._operations["svc"].gate
    assert release.is_set() and gate.running == 0 and not gate._queue
    print("done")
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(CUT_AGAIN_AND_AGAIN, id="cut_again_and_again"),
        pytest.param(INTERRUPTED, id="interrupted"),
        pytest.param(INTERRUPTED_IN_LINE, id="interrupted_in_line"),
    ],
)
def test_an_interrupt_at_any_time_loses_no_turn_and_leaves_no_call_active(program):
    ended = _run(program)
    assert ended.stdout == "done\n", ended.stderr


# -- signal handlers that use the service ------------------------------------------------------

LOOP = """
    import signal, sys, time
    from holdfast.resilience.backoff import Exponential
    from holdfast.resilience.policy import *
    from holdfast.resilience.service import RetryService

    def fail():
        raise ConnectionRefusedError

    limits = dict(
        concurrency=ConcurrencyLimit(1),
        rate=RateLimit(per_minute=10_000_000),
        budget=RetryBudget(share=1, floor=1_000_000),
    )
    policies = [
        RetryPolicy(
            max_attempts=number,
            backoff=Exponential(base=0),
            breaker=BreakerPolicy(consecutive_failures=10**6, failure_rate=0.999),
            **(limits if limited else {}),
        )
        for limited in [sys.argv[1] == "limited"]
        for number in (1, 2)
    ]
    service = RetryService()
    seen = 0

    def handler(*_):
        global seen
        seen += 1
        service.metrics("svc")
        service.circuit_state("svc")
        service.execute_sync(fail if seen % 2 else int, policies[seen % 2], "svc")
        signal.setitimer(signal.ITIMER_REAL, 0.0001)

    for policy in policies:
        service.execute_sync(fail, policy, "svc")
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0001)
    until = time.monotonic() + 0.25
    made = 0
    while time.monotonic() < until:
        made += 1
        service.execute_sync(fail if made % 3 else int, policies[made // 2 % 2], "svc")
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert seen > 5, seen
    total = service.metrics("svc").total_operations
    assert total == made + seen + 2, (total, made, seen)
    gate = service._operations["svc"].gate
    assert gate is None or gate.running == 0
    print("done")
"""


@pytest.mark.parametrize("kind", ["plain", "limited"])
def test_a_signal_handler_may_use_the_service_that_it_interrupts(kind):
    ended = _run(LOOP, kind)
    assert ended.stdout == "done\n", ended.stderr
