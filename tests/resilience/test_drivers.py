"""The drivers: blocking and asynchronous calls behave alike."""

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import AttemptTimeout, DeadlineExceeded, Permanent, RetryLater
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.call import AttemptResult, AttemptStep, GateTurn, Pause
from holdfast.resilience.checks import MisusedOperationError
from holdfast.resilience.drivers import drive, drive_async
from holdfast.resilience.limits import AbandonedThreads, ConcurrencyGate
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from holdfast.resilience.result import Ended, RetryResult, StopReason
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock, seeded_rng


def _script(*steps):
    """Yield the steps and return all replies as the value of a result."""
    replies = []
    for step in steps:
        reply = yield step
        replies.append(reply)
    return Ended(replies, None, 0, 0.0, StopReason.SUCCESS, ())


def _drive(*steps, operation=lambda: "value", clock=None):
    return drive(_script(*steps), operation, clock or VirtualClock(), AbandonedThreads(1)).unwrap()


def _drive_async(*steps, operation=None, clock=None):
    async def default():
        return "value"

    clock = clock or VirtualClock()
    return clock.run(drive_async(_script(*steps), operation or default, clock)).unwrap()


BOTH = pytest.mark.parametrize("run", [_drive, _drive_async], ids=["sync", "async"])


@BOTH
def test_an_attempt_replies_with_its_value(run):
    (outcome,) = run(AttemptStep(None))
    assert outcome == AttemptResult("value")
    (outcome,) = run(AttemptStep(1.0))
    assert outcome == AttemptResult("value")


@BOTH
def test_a_pause_has_its_duration(run):
    clock = VirtualClock()
    assert run(Pause(2.5), Pause(0.5), clock=clock) == [None, None]
    assert clock.monotonic() == 3
    assert clock.sleeps == [2.5, 0.5]


def _raising(error):
    def operation():
        raise error

    async def operation_async():
        raise error

    return {_drive: operation, _drive_async: operation_async}


@BOTH
@pytest.mark.parametrize("seconds", [None, 1.0])
@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("its own"), OSError(5, "io")])
def test_an_error_is_the_outcome_and_never_taken_for_a_cut(run, seconds, error):
    (outcome,) = run(AttemptStep(seconds), operation=_raising(error)[run])
    assert outcome.error is error
    assert not outcome.cut


@BOTH
@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("seconds", [None, 1.0])
def test_an_interruption_passes_through(run, interruption, seconds):
    with pytest.raises(type(interruption)):
        run(AttemptStep(seconds), operation=_raising(interruption)[run])


def test_a_blocking_attempt_is_cut_after_its_seconds():
    clock = VirtualClock()
    (outcome,) = _drive(AttemptStep(2.0), operation=lambda: clock.sleep(10), clock=clock)
    assert outcome.cut
    assert clock.monotonic() == 2


def test_an_asynchronous_attempt_is_cut_after_its_seconds():
    clock = VirtualClock()
    (outcome,) = _drive_async(AttemptStep(2.0), operation=lambda: asyncio.sleep(10), clock=clock)
    assert outcome.cut
    assert clock.monotonic() == 2


@pytest.mark.parametrize("then", ["return", "raise"])
def test_an_operation_that_makes_something_else_of_being_cut_is_cut_all_the_same(then):
    async def stubborn():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            if then == "raise":
                raise ValueError("from the clean-up") from None
        return "late"

    (outcome,) = _drive_async(AttemptStep(2.0), operation=stubborn)
    assert (outcome.cut, outcome.value, outcome.error) == (True, None, None)


def test_a_cut_leaves_the_task_uncancelled():
    async def main():
        outcome = await drive_async(_script(AttemptStep(2.0)), lambda: asyncio.sleep(10), clock)
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(1)
        return outcome.unwrap(), task.cancelling()

    clock = VirtualClock()
    (outcome,), cancelling = clock.run(main())
    assert outcome.cut
    assert cancelling == 0


def test_an_asynchronous_operation_given_to_the_blocking_driver_is_refused():
    async def asynchronous():
        return 1

    for seconds in (None, 1.0):
        with pytest.raises(MisusedOperationError, match="operation must be blocking"):
            _drive(AttemptStep(seconds), operation=asynchronous)


def test_a_blocking_operation_given_to_the_asynchronous_driver_is_refused():
    for seconds in (None, 1.0):
        with pytest.raises(MisusedOperationError, match="must return an awaitable, got 5"):
            _drive_async(AttemptStep(seconds), operation=lambda: 5)


def test_any_awaitable_will_do():
    async def main():
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(7)
        return await drive_async(_script(AttemptStep(None)), lambda: future, SYSTEM_CLOCK)

    assert asyncio.run(main()).unwrap() == [AttemptResult(7)]


@BOTH
def test_steps_are_closed_when_the_driver_is_interrupted(run):
    closed = []

    def steps():
        try:
            yield AttemptStep(None)
        finally:
            closed.append(True)

    clock, operation = VirtualClock(), _raising(KeyboardInterrupt())[run]

    def interrupted():
        if run is _drive:
            return drive(steps(), operation, clock, AbandonedThreads(1))
        return clock.run(drive_async(steps(), operation, clock))

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert closed == [True]


# -- turns -------------------------------------------------------------------------------------


class _Holder:
    """A caller that has a turn or waits for one."""


FIRST, SECOND = _Holder(), _Holder()


def _busy_gate() -> ConcurrencyGate:
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    assert gate.try_enter(FIRST)
    return gate


@BOTH
def test_a_turn_that_is_free_is_granted(run):
    gate = ConcurrencyGate(ConcurrencyLimit(1))
    assert run(GateTurn(gate, SECOND, None)) == [True]
    assert gate.running == 1


@BOTH
@pytest.mark.parametrize("seconds", [0, 0.02])
def test_a_turn_that_does_not_come_in_time_is_not_granted(run, seconds):
    gate = _busy_gate()
    assert run(GateTurn(gate, SECOND, seconds)) == [False]
    gate.leave(FIRST)
    assert gate.running == 0, "nobody is left in line"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_waiting_caller_is_woken_by_another_thread(asynchronous):
    gate = _busy_gate()
    timer = threading.Timer(0.02, gate.leave, [FIRST])
    timer.start()
    if asynchronous:

        async def unused():
            raise AssertionError

        driven = asyncio.run(drive_async(_script(GateTurn(gate, SECOND, 5)), unused, SYSTEM_CLOCK))
    else:
        steps = _script(GateTurn(gate, SECOND, 5))
        driven = drive(steps, lambda: None, SYSTEM_CLOCK, AbandonedThreads(1))
    timer.join()
    assert driven.unwrap() == [True]
    assert gate.running == 1


def test_a_turn_granted_at_the_moment_of_giving_up_is_not_lost():
    gate = _busy_gate()

    async def unused():
        raise AssertionError

    async def main():
        waiting = asyncio.create_task(
            drive_async(_script(GateTurn(gate, SECOND, 5.0)), unused, clock)
        )
        await asyncio.sleep(5.0)  # its timer was set after ours, so the turn comes first
        gate.leave(FIRST)
        return await waiting

    clock = VirtualClock()
    (granted,) = clock.run(main()).unwrap()
    assert gate.running == int(granted), "a turn is held exactly where it was said to be granted"


def test_a_loop_closed_under_a_waiting_task_is_not_an_error_for_the_leaving_caller():
    gate = _busy_gate()
    loop = asyncio.new_event_loop()

    async def unused():
        raise AssertionError

    coroutine = drive_async(_script(GateTurn(gate, SECOND, None)), unused, SYSTEM_CLOCK)
    waiting = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    loop.stop()
    loop.close()
    gate.leave(FIRST)
    assert gate.running == 1, "the turn is the waiting task's"
    coroutine.close()
    assert gate.running == 0
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]


# -- both drivers, the same decisions ----------------------------------------------------------


@st.composite
def _policies(draw) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=draw(st.integers(1, 5)),
        backoff=Exponential(
            base=draw(st.sampled_from([0, 0.5, 1])),
            cap=draw(st.sampled_from([2, 60])),
            jitter=draw(st.sampled_from([0, 0.3, "full"])),
        ),
        attempt_timeout=draw(st.none() | st.sampled_from([0.25, 1.0])),
        deadline=draw(st.none() | st.sampled_from([0.5, 3.0, 20.0])),
        breaker=draw(st.none() | st.builds(BreakerPolicy, consecutive_failures=st.integers(1, 4))),
        budget=draw(st.none() | st.just(RetryBudget(share=0.2, floor=1))),
        rate=draw(st.none() | st.builds(RateLimit, per_minute=st.integers(1, 4))),
        idempotent=draw(st.booleans()),
        concurrency=draw(st.none() | st.just(ConcurrencyLimit(1))),
    )


_ERRORS = [
    ConnectionRefusedError("refused"),
    ConnectionResetError("reset"),
    TimeoutError("slow"),
    Permanent("PARSE_ERROR"),
    RetryLater(0.75),
    RetryLater(50),
    KeyError("unknown"),
]
_outcomes = st.tuples(
    st.sampled_from([0.0, 0.125, 0.25, 0.375, 2.0]), st.none() | st.sampled_from(_ERRORS)
)


def _facts(result: RetryResult[int]) -> tuple[object, ...]:
    history = tuple(
        (record.number, type(record.error), record.category, record.delay, record.duration)
        for record in result.history
    )
    facts = (result.ok, result.value, type(result.error), result.attempts, result.total_time)
    return (*facts, result.stop_reason, result.retry_at, result.breaker_triggered, history)


@settings(max_examples=80)
@given(_policies(), st.lists(st.lists(_outcomes, min_size=5, max_size=5), max_size=4))
def test_the_same_script_gives_the_same_results_field_by_field(policy, calls):
    """Each call is a list of (seconds, error or None) that its attempts consume in turn."""
    results: dict[str, list[object]] = {"sync": [], "async": []}

    clock = VirtualClock()
    service = RetryService(clock=clock, rng=seeded_rng(3))
    for outcomes in calls:
        script = iter(outcomes)

        def operation(script=script, clock=clock):
            seconds, error = next(script)
            clock.sleep(seconds)
            if error is not None:
                raise error
            return 1

        results["sync"].append(_facts(service.execute_sync(operation, policy, "svc")))
    if calls:
        results["sync"].append(service.metrics("svc"))

    async_clock = VirtualClock()
    async_service = RetryService(clock=async_clock, rng=seeded_rng(3))

    async def main():
        for outcomes in calls:
            script = iter(outcomes)

            async def operation(script=script):
                seconds, error = next(script)
                await async_clock.sleep_async(seconds)
                if error is not None:
                    raise error
                return 1

            results["async"].append(_facts(await async_service.execute(operation, policy, "svc")))

    async_clock.run(main())
    if calls:
        results["async"].append(async_service.metrics("svc"))
    assert results["sync"] == results["async"]
    assert clock.monotonic() == async_clock.monotonic()


# -- real time, shortly ------------------------------------------------------------------------


def test_on_the_systems_clock_a_blocking_attempt_is_cut_and_the_caller_goes_on():
    service, release = RetryService(), threading.Event()
    policy = RetryPolicy(max_attempts=1, attempt_timeout=0.03)
    began = time.monotonic()
    result = service.execute_sync(lambda: release.wait(90), policy, "slow")
    assert time.monotonic() - began < 60
    assert isinstance(result.error, AttemptTimeout)
    release.set()


def test_on_the_systems_clock_the_deadline_cuts_an_asynchronous_attempt():
    service = RetryService()
    policy = RetryPolicy(max_attempts=1, deadline=0.03)
    began = time.monotonic()
    result = asyncio.run(service.execute(lambda: asyncio.sleep(90), policy, "slow"))
    assert time.monotonic() - began < 60
    assert result.stop_reason is StopReason.DEADLINE
    assert isinstance(result.error, DeadlineExceeded)
