"""A guard inside an attempt of another: attempts do not multiply, deadlines are inherited."""

import asyncio
import contextvars
import threading

import pytest

from holdfast.errors import DeadlineExceeded
from holdfast.events import Event, NestedGuardFound
from holdfast.resilience.active_call import ACTIVE
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.policy import BreakerPolicy, ConcurrencyLimit, RetryPolicy
from holdfast.resilience.result import StopReason
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock

THRICE = RetryPolicy(max_attempts=3, backoff=Exponential(base=1, jitter=0))
ONCE = RetryPolicy(max_attempts=1)
SLOW_PATH = RetryPolicy(max_attempts=3, backoff=Exponential(base=1, jitter=0), deadline=1000)
DOWN = ConnectionRefusedError("down")


def _count_calls(service, policies, *, asynchronous):
    """Nest one guard for each policy around a failing operation; return how often it ran."""
    made = 0

    def blocking():
        nonlocal made
        made += 1
        raise DOWN

    async def coroutine():
        nonlocal made
        made += 1
        raise DOWN

    nested = coroutine if asynchronous else blocking
    for depth, policy in reversed(list(enumerate(policies))):
        nested = service.guard(policy, f"level {depth}")(nested)
    run = (lambda: service._clock.run(nested())) if asynchronous else nested
    with pytest.raises(ConnectionRefusedError):
        run()
    return made


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    "policies,expected",
    [
        ([THRICE, THRICE], 3),
        ([THRICE, THRICE, THRICE], 3),
        ([THRICE, THRICE, THRICE, THRICE, THRICE], 3),
        ([SLOW_PATH, THRICE, SLOW_PATH], 3),
        ([THRICE, ONCE, THRICE], 3),
        ([ONCE, THRICE], 3),
        ([ONCE, ONCE, THRICE, THRICE], 3),
        ([THRICE, ONCE], 3),
    ],
)
def test_attempts_do_not_multiply_in_nested_guards(policies, expected, asynchronous):
    service = RetryService(clock=VirtualClock())
    assert _count_calls(service, policies, asynchronous=asynchronous) == expected


@pytest.mark.parametrize("asynchronous", [False, True])
def test_where_it_is_allowed_attempts_multiply(asynchronous):
    service = RetryService(clock=VirtualClock(), nested="allow")
    assert _count_calls(service, [THRICE, THRICE], asynchronous=asynchronous) == 9
    assert _count_calls(service, [THRICE, SLOW_PATH, THRICE], asynchronous=asynchronous) == 27


def test_guards_of_different_services_see_each_other():
    outer, inner = RetryService(clock=VirtualClock()), RetryService(clock=VirtualClock())
    made = 0

    @outer.guard(THRICE, "outer")
    @inner.guard(THRICE, "inner")
    def operation() -> None:
        nonlocal made
        made += 1
        raise DOWN

    with pytest.raises(ConnectionRefusedError):
        operation()
    assert made == 3


def test_a_nested_guard_is_reported_once(caplog):
    told: list[Event] = []
    service = RetryService(clock=VirtualClock(), listeners=[told.append])

    @service.guard(THRICE, "outer")
    @service.guard(THRICE, "inner")
    def operation() -> None:
        raise DOWN

    for _ in range(5):
        with pytest.raises(ConnectionRefusedError):
            operation()
    found = [event for event in told if isinstance(event, NestedGuardFound)]
    assert found == [NestedGuardFound("inner", outer="outer", collapsed=True)]
    assert caplog.text.count("guard inner runs inside guard outer: kept to one attempt") == 1


def test_calls_one_after_the_other_are_not_nested(caplog):
    service = RetryService(clock=VirtualClock())
    for name in ("first", "second"):
        result = service.execute_sync(_raiser, THRICE, name)
        assert result.attempts == 3
    assert "runs inside" not in caplog.text


def _raiser() -> None:
    raise DOWN


def test_a_call_in_a_worker_thread_of_the_attempt_is_inside():
    service = RetryService()
    quick = RetryPolicy(max_attempts=2, backoff=Exponential(base=0))
    made = []

    def inner():
        made.append(threading.current_thread().name)
        raise DOWN

    async def operation():
        call = asyncio.to_thread(service.execute_sync, inner, quick, "inner")
        return (await call).unwrap()

    asyncio.run(service.execute(operation, quick, "outer"))
    assert len(made) == 2


@pytest.mark.parametrize("policy", [THRICE, SLOW_PATH])
def test_a_background_task_that_outlives_the_call_is_no_longer_inside(policy):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    made = 0

    async def failing():
        nonlocal made
        made += 1
        raise DOWN

    async def background():
        await asyncio.sleep(100)
        return await service.execute(failing, THRICE, "background")

    async def main():
        async def operation():
            return asyncio.create_task(background())

        task = (await service.execute(operation, policy, "outer")).unwrap()
        return await task

    result = clock.run(main())
    assert (made, result.attempts) == (3, 3)


@pytest.mark.parametrize("policy", [THRICE, SLOW_PATH])
def test_a_context_kept_from_a_blocking_call_is_no_longer_inside_it(policy):
    service = RetryService(clock=VirtualClock())
    kept = service.execute_sync(contextvars.copy_context, policy, "outer").unwrap()
    result = kept.run(service.execute_sync, _raiser, THRICE, "later")
    assert result.attempts == 3


@pytest.mark.parametrize("policy", [THRICE, SLOW_PATH])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_context_that_outlived_its_call_is_outside_from_its_next_call_on(policy, asynchronous):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    kept = service.execute_sync(contextvars.copy_context, policy, "outer").unwrap()
    assert kept[ACTIVE] is not None

    async def call_async():
        await service.execute(lambda: asyncio.sleep(0), THRICE, "later")
        return ACTIVE.get()

    def call():
        if asynchronous:
            return clock.run(call_async())
        service.execute_sync(lambda: 1, THRICE, "later")
        return ACTIVE.get()

    assert not kept.run(call).under_way


def test_a_background_task_does_not_inherit_the_deadline_of_a_call_that_has_ended():
    clock = VirtualClock()
    service = RetryService(clock=clock)

    async def background():
        await asyncio.sleep(100)
        return await service.execute(lambda: asyncio.sleep(50, "done"), ONCE, "background")

    async def main():
        async def operation():
            return asyncio.create_task(background())

        deadlined = RetryPolicy(deadline=5)
        task = (await service.execute(operation, deadlined, "outer")).unwrap()
        return await task

    assert clock.run(main()).value == "done"


# -- deadlines ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("own,ends_at", [(None, 5), (2, 2), (50, 5)])
def test_an_inner_call_must_end_with_the_earlier_of_both_deadlines(asynchronous, own, ends_at):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    outer = RetryPolicy(max_attempts=1, deadline=5)
    inner = RetryPolicy(max_attempts=1, deadline=own)
    ended = []

    def operation():
        result = service.execute_sync(lambda: clock.sleep(100), inner, "inner")
        ended.append((clock.monotonic(), result.stop_reason, type(result.error)))

    async def operation_async():
        result = await service.execute(lambda: asyncio.sleep(100), inner, "inner")
        ended.append((clock.monotonic(), result.stop_reason, type(result.error)))

    if asynchronous:
        outcome = clock.run(service.execute(operation_async, outer, "outer"))
    else:
        outcome = service.execute_sync(operation, outer, "outer")
    if ends_at == 2:
        assert outcome.ok
        assert ended == [(2, StopReason.DEADLINE, DeadlineExceeded)]
    else:
        assert clock.monotonic() == 5
        assert outcome.stop_reason is StopReason.DEADLINE
        assert isinstance(outcome.error, DeadlineExceeded)
        assert ended == [], "the outer call is cut around the inner one"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_inner_call_does_not_sleep_beyond_the_outer_deadline(asynchronous):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    outer = RetryPolicy(max_attempts=1, deadline=5)
    inner = RetryPolicy(max_attempts=9, backoff=Exponential(base=4, multiplier=1, jitter=0))
    results = []

    async def failing():
        raise DOWN

    async def operation_async():
        results.append(await service.execute(failing, inner, "inner"))

    def operation():
        results.append(service.execute_sync(_raiser, inner, "inner"))

    if asynchronous:
        clock.run(service.execute(operation_async, outer, "outer"))
    else:
        service.execute_sync(operation, outer, "outer")
    (result,) = results
    assert (result.stop_reason, result.attempts) == (StopReason.DEADLINE, 2)
    assert clock.monotonic() == 4
    assert result.retry_at == clock.wall() + 4


def test_a_deadline_on_another_clock_is_not_inherited():
    outer_clock, inner_clock = VirtualClock(start=0), VirtualClock(start=10_000)
    outer, inner = RetryService(clock=outer_clock), RetryService(clock=inner_clock)
    deadlined = RetryPolicy(max_attempts=1, deadline=5)
    for policy, expected in ((ONCE, "done"), (deadlined, "done")):

        def operation(policy=policy):
            return inner.execute_sync(lambda: inner_clock.sleep(2) or "done", policy, "inner")

        result = outer.execute_sync(operation, deadlined, "outer").unwrap()
        assert result.value == expected


# -- a name inside itself ----------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_name_nested_in_itself_does_not_wait_for_its_own_turn(asynchronous):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(max_attempts=1, deadline=60, concurrency=ConcurrencyLimit(1))

    def operation(depth=3):
        if depth == 0:
            return "bottom"
        return service.execute_sync(lambda: operation(depth - 1), policy, "svc").unwrap()

    async def operation_async(depth=3):
        if depth == 0:
            return "bottom"
        return (await service.execute(lambda: operation_async(depth - 1), policy, "svc")).unwrap()

    value = clock.run(operation_async()) if asynchronous else operation()
    assert value == "bottom"
    gate = service._operations["svc"].gate
    assert gate is not None
    assert gate.running == 0
    assert clock.monotonic() == 0


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_trial_that_calls_its_own_name_inside_recovers(asynchronous):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    breaker = BreakerPolicy(consecutive_failures=1, open_for=60, trial_calls=1)
    policy = RetryPolicy(max_attempts=1, breaker=breaker)

    def operation():
        return service.execute_sync(lambda: "inner", policy, "svc").unwrap()

    async def inner_async():
        return "inner"

    async def operation_async():
        return (await service.execute(inner_async, policy, "svc")).unwrap()

    service.execute_sync(_raiser, policy, "svc")
    clock.advance(60)
    if asynchronous:
        result = clock.run(service.execute(operation_async, policy, "svc"))
    else:
        result = service.execute_sync(operation, policy, "svc")
    assert result.value == "inner"
    assert service.circuit_state("svc").state is CircuitState.CLOSED
    assert service.circuit_state("svc").recoveries == 1


def test_a_task_that_outlives_its_call_waits_for_a_turn_as_any_other():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(max_attempts=1, concurrency=ConcurrencyLimit(1, max_wait=0))

    async def late():
        await asyncio.sleep(5)
        return await service.execute(lambda: asyncio.sleep(0), policy, "svc")

    async def main():
        async def operation():
            return asyncio.create_task(late())

        task = (await service.execute(operation, policy, "svc")).unwrap()
        await asyncio.sleep(4)
        await service.execute(lambda: asyncio.sleep(10), policy, "svc")
        return await task

    assert clock.run(main()).stop_reason is StopReason.CONCURRENCY


def test_an_inner_breaker_still_protects_its_downstream():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    inner = RetryPolicy(max_attempts=3, breaker=BreakerPolicy(consecutive_failures=2, open_for=60))
    made = 0

    def failing():
        nonlocal made
        made += 1
        raise DOWN

    def operation():
        return service.execute_sync(failing, inner, "inner").unwrap()

    result = service.execute_sync(operation, THRICE, "outer")
    assert made == 2, "the third attempt of the outer call was refused by the inner breaker"
    assert not result.ok
