"""Interruptions propagate at once, at every stage, and leave no state behind."""

import asyncio
import threading

import pytest

from holdfast.errors import AttemptTimeout, CircuitOpenError
from holdfast.resilience.active_call import ACTIVE
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, ConcurrencyLimit, RateLimit, RetryPolicy
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock

STEADY = Exponential(base=10, multiplier=1, jitter=0)
INTERRUPTIONS = [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit]
DOWN = ConnectionRefusedError("down")


def _call_is_under_way() -> bool:
    active = ACTIVE.get()
    return active is not None and active.under_way


async def _hang() -> None:
    await asyncio.sleep(1000)


async def _fail() -> None:
    raise DOWN


async def _cancel_after(seconds: float, coroutine) -> None:
    """Start a task, cancel it after `seconds`; it must end as cancelled at once."""
    task = asyncio.create_task(coroutine)
    await asyncio.sleep(seconds)
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert asyncio.get_running_loop().time() == began
    assert asyncio.all_tasks() == {asyncio.current_task()}


STAGES = {
    "attempt on the plain path": (_hang, RetryPolicy()),
    "attempt under a timeout": (_hang, RetryPolicy(attempt_timeout=500)),
    "attempt under a deadline": (_hang, RetryPolicy(deadline=500)),
    "attempt in a turn": (_hang, RetryPolicy(concurrency=ConcurrencyLimit(1))),
    "backoff after the plain path": (_fail, RetryPolicy(backoff=STEADY)),
    "backoff under a deadline": (_fail, RetryPolicy(backoff=STEADY, deadline=500)),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_cancelled_task_ends_at_once_and_leaves_nothing_behind(stage):
    operation, policy = STAGES[stage]
    clock = VirtualClock()
    service = RetryService(clock=clock)
    threads = threading.enumerate()

    async def main():
        await _cancel_after(5, service.execute(operation, policy, "svc"))
        assert not _call_is_under_way()
        gate = service._operations["svc"].gate
        assert gate is None or gate.running == 0

    clock.run(main())
    assert clock.monotonic() == 5
    assert not set(threading.enumerate()) - set(threads)  # others may have ended meanwhile


def test_a_task_cancelled_while_it_waits_for_its_turn_leaves_the_line():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(concurrency=ConcurrencyLimit(1))

    async def main():
        holder = asyncio.create_task(
            service.execute(lambda: asyncio.sleep(50, "held"), policy, "svc")
        )
        await asyncio.sleep(0)
        impatient = asyncio.create_task(service.execute(_hang, policy, "svc"))
        await asyncio.sleep(5)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert (await holder).value == "held"
        gate = service._operations["svc"].gate
        assert gate is not None
        assert gate.running == 0
        assert (await service.execute(lambda: asyncio.sleep(0, "next"), policy, "svc")).ok

    clock.run(main())


def test_a_task_cancelled_as_it_gets_its_turn_passes_it_on():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(concurrency=ConcurrencyLimit(1))

    async def main():
        gate_free = asyncio.Event()
        holder = asyncio.create_task(service.execute(gate_free.wait, policy, "svc"))
        await asyncio.sleep(0)
        waiting = [
            asyncio.create_task(service.execute(lambda: asyncio.sleep(1, "done"), policy, "svc"))
            for _ in range(3)
        ]
        await asyncio.sleep(1)
        gate_free.set()
        await holder
        waiting[0].cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert [result.value for result in results[1:]] == ["done", "done"]  # type: ignore[union-attr]
        gate = service._operations["svc"].gate
        assert gate is not None
        assert gate.running == 0

    clock.run(main())


def test_a_task_cancelled_while_it_waits_for_the_rate_releases_its_place():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(
        backoff=Exponential(cap=100),
        rate=RateLimit(per_minute=1),
        concurrency=ConcurrencyLimit(1),
    )

    async def main():
        quick = lambda: asyncio.sleep(0, "done")  # noqa: E731 - three uses below
        assert (await service.execute(quick, policy, "svc")).ok
        await _cancel_after(5, service.execute(quick, policy, "svc"))
        assert (await service.execute(quick, policy, "svc")).ok
        return clock.monotonic()

    assert clock.run(main()) == 60, "the place of the cancelled call was not lost"


def test_a_cancelled_trial_releases_its_place():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(
        max_attempts=1, breaker=BreakerPolicy(consecutive_failures=1, open_for=20, trial_calls=1)
    )

    async def main():
        await service.execute(_fail, policy, "svc")
        await asyncio.sleep(20)
        trial = asyncio.create_task(service.execute(_hang, policy, "svc"))
        await asyncio.sleep(1)
        refused = await service.execute(_hang, policy, "svc")
        assert isinstance(refused.error, CircuitOpenError)
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial
        assert (await service.execute(lambda: asyncio.sleep(0), policy, "svc")).ok

    clock.run(main())


def test_a_cancellation_that_the_operation_raises_itself_passes_through():
    clock = VirtualClock()
    service = RetryService(clock=clock)

    async def cancelled():
        raise asyncio.CancelledError

    for policy in (RetryPolicy(), RetryPolicy(attempt_timeout=5)):
        with pytest.raises(asyncio.CancelledError):
            clock.run(service.execute(cancelled, policy, "svc"))
    assert service.metrics("svc").total_operations == 0


def test_a_timeout_of_the_callers_own_is_not_taken_for_ours():
    clock = VirtualClock()
    service = RetryService(clock=clock)

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await service.execute(_hang, RetryPolicy(attempt_timeout=500), "svc")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await service.execute(_fail, RetryPolicy(backoff=STEADY), "svc")

    clock.run(main())
    assert clock.monotonic() == 6


# -- blocking calls ----------------------------------------------------------------------------

BLOCKING = {
    "plain": RetryPolicy(),
    "timeout": RetryPolicy(attempt_timeout=5),
    "turn": RetryPolicy(concurrency=ConcurrencyLimit(1)),
    "rate": RetryPolicy(rate=RateLimit(per_minute=5)),
}


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
@pytest.mark.parametrize("policy", BLOCKING)
def test_an_interrupted_attempt_is_not_retried(interruption, policy):
    service = RetryService(clock=VirtualClock())
    made = []

    def operation():
        made.append(1)
        raise interruption

    with pytest.raises(interruption):
        service.execute_sync(operation, BLOCKING[policy], "svc")
    assert made == [1]
    assert not _call_is_under_way()
    gate = service._operations["svc"].gate
    assert gate is None or gate.running == 0


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
@pytest.mark.parametrize("policy", BLOCKING)
def test_an_interrupted_retry_passes_through_too(interruption, policy):
    service = RetryService(clock=VirtualClock())
    outcomes = iter([DOWN, interruption])

    def operation():
        raise next(outcomes)

    with pytest.raises(interruption):
        service.execute_sync(operation, BLOCKING[policy], "svc")
    gate = service._operations["svc"].gate
    assert gate is None or gate.running == 0


def test_an_inner_call_in_an_attempt_that_was_abandoned_releases_its_turn_when_it_ends():
    service = RetryService()
    outer = RetryPolicy(max_attempts=1, attempt_timeout=0.05)
    inner = RetryPolicy(max_attempts=1, concurrency=ConcurrencyLimit(1, max_wait=30))
    release = threading.Event()

    result = service.execute_sync(
        lambda: service.execute_sync(release.wait, inner, "inner"), outer, "outer"
    )
    assert isinstance(result.error, AttemptTimeout)
    release.set()
    assert service.execute_sync(lambda: "next", inner, "inner").value == "next"


class _InterruptedClock(VirtualClock):
    """A clock on which every sleep is interrupted, as by Ctrl-C."""

    def sleep(self, seconds: float) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(backoff=STEADY),
        RetryPolicy(backoff=STEADY, deadline=100),
        RetryPolicy(backoff=STEADY, concurrency=ConcurrencyLimit(1)),
    ],
)
def test_an_interrupted_backoff_passes_through(policy):
    service = RetryService(clock=_InterruptedClock())
    with pytest.raises(KeyboardInterrupt):
        service.execute_sync(_raise_down, policy, "svc")
    assert not _call_is_under_way()
    gate = service._operations["svc"].gate
    assert gate is None or gate.running == 0


def _raise_down() -> None:
    raise DOWN


def test_an_interrupted_wait_for_the_rate_releases_place_and_turn():
    clock = _InterruptedClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(rate=RateLimit(per_minute=1), concurrency=ConcurrencyLimit(1))
    assert service.execute_sync(lambda: 1, policy, "svc").ok
    with pytest.raises(KeyboardInterrupt):
        service.execute_sync(lambda: 1, policy, "svc")
    operation = service._operations["svc"]
    assert operation.gate is not None
    assert operation.rate is not None
    assert operation.gate.running == 0
    assert operation.rate.reserve(clock.monotonic(), 100) == 60


def test_an_interrupted_trial_releases_its_place():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(
        max_attempts=1, breaker=BreakerPolicy(consecutive_failures=1, open_for=20, trial_calls=1)
    )
    service.execute_sync(_raise_down, policy, "svc")
    clock.advance(20)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        service.execute_sync(interrupted, policy, "svc")
    assert service.execute_sync(lambda: 1, policy, "svc").ok


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_group_that_holds_an_interruption_is_not_retried(asynchronous):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    made = []

    def operation():
        made.append(1)
        raise BaseExceptionGroup("both", [DOWN, KeyboardInterrupt()])

    async def operation_async():
        operation()

    def call():
        if asynchronous:
            return clock.run(service.execute(operation_async, RetryPolicy(), "svc"))
        return service.execute_sync(operation, RetryPolicy(), "svc")

    with pytest.raises(BaseExceptionGroup):
        call()
    assert made == [1]
