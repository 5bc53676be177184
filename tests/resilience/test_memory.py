"""A failed call leaves no reference cycle: its operation's objects are freed with its result."""

import asyncio
import gc
import weakref

import pytest

from holdfast.errors import Permanent
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, ConcurrencyLimit, RateLimit, RetryPolicy
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock

QUICK = Exponential(base=0)
POLICIES = {
    "plain": RetryPolicy(backoff=QUICK),
    "once": RetryPolicy(backoff=QUICK, max_attempts=1),
    "timeout": RetryPolicy(backoff=QUICK, attempt_timeout=5),
    "limited": RetryPolicy(
        backoff=QUICK,
        deadline=50,
        breaker=BreakerPolicy(),
        rate=RateLimit(per_minute=1000),
        concurrency=ConcurrencyLimit(2),
    ),
}


class _Large:
    """An object in the frame of an operation."""


class _Traced:
    """An operation that always fails; `dead` is True when the frames of all attempts are freed."""

    def __init__(self, error: type[Exception] | None = ConnectionRefusedError) -> None:
        self.error = error
        self.seen: list[weakref.ref[_Large]] = []

    def run(self) -> None:
        large = _Large()
        self.seen.append(weakref.ref(large))
        if self.error is not None:
            raise self.error("DOWN")

    async def run_async(self) -> None:
        large = _Large()
        self.seen.append(weakref.ref(large))
        await asyncio.sleep(0 if self.error is not None else 1000)
        if self.error is not None:
            raise self.error("DOWN")

    @property
    def dead(self) -> list[bool]:
        return [large() is None for large in self.seen]


@pytest.fixture(autouse=True)
def _without_the_collector():
    gc.disable()
    yield
    gc.enable()


def _dead_after(policy, traced, asynchronous, look):
    """Pass the result to `look` and drop it; return which frames are freed then.

    In the same task, because asyncio itself has a cycle with a task's result: the frames of an
    error lead to the frame of `run_until_complete`, which holds the task.
    """
    clock = VirtualClock()
    service = RetryService(clock=clock)

    async def main():
        look(await service.execute(traced.run_async, policy, "svc"))
        await asyncio.sleep(0)  # the loop itself holds a cancelled future until its next turn
        return traced.dead

    if asynchronous:
        return clock.run(main())
    look(service.execute_sync(traced.run, policy, "svc"))
    return traced.dead


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("error", [ConnectionRefusedError, ValueError, Permanent])
def test_with_the_result_go_the_frames_of_all_attempts(kind, error, asynchronous):
    traced = _Traced(error)

    def look(result):
        assert not result.ok
        assert not any(traced.dead), "the tracebacks of the result show them"

    assert all(_dead_after(POLICIES[kind], traced, asynchronous, look))


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", POLICIES)
def test_an_unwrapped_error_takes_them_along(kind, asynchronous):
    traced, clock = _Traced(), VirtualClock()
    service = RetryService(clock=clock)

    async def call_async():
        with pytest.raises(ConnectionRefusedError):
            (await service.execute(traced.run_async, POLICIES[kind], "svc")).unwrap()

    if asynchronous:
        clock.run(call_async())
    else:
        with pytest.raises(ConnectionRefusedError):
            service.execute_sync(traced.run, POLICIES[kind], "svc").unwrap()
    assert all(traced.dead)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", POLICIES)
def test_the_error_of_a_decorated_function_takes_them_along(kind, asynchronous):
    traced, clock = _Traced(), VirtualClock()
    service = RetryService(clock=clock)
    decorate = service.guard(POLICIES[kind], "svc")

    async def call_async():
        # Inside, as a task that ends with an error is in a cycle with it in any case.
        with pytest.raises(ConnectionRefusedError):
            await decorate(traced.run_async)()

    if asynchronous:
        clock.run(call_async())
    else:
        with pytest.raises(ConnectionRefusedError):
            decorate(traced.run)()
    assert all(traced.dead)


def test_an_attempt_that_was_cut_off_leaves_nothing_either():
    def look(result):
        assert result.attempts == 3

    assert all(_dead_after(POLICIES["timeout"], _Traced(None), True, look))


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", POLICIES)
def test_no_error_names_an_earlier_one_as_its_context(kind, asynchronous):
    def look(result):
        errors = [record.error for record in result.history]
        assert len(errors) == POLICIES[kind].max_attempts
        assert len(set(map(id, errors))) == len(errors)
        assert [error.__context__ for error in errors] == [None] * len(errors)

    _dead_after(POLICIES[kind], _Traced(), asynchronous, look)


@pytest.mark.parametrize("kind", ["plain", "timeout", "limited"])
def test_a_success_keeps_nothing_of_the_attempts_before_it(kind):
    traced, service = _Traced(), RetryService(clock=VirtualClock())

    def operation():
        if traced.seen:
            return "value"
        return traced.run()

    result = service.execute_sync(operation, POLICIES[kind], "svc")
    assert result.value == "value"
    del result
    assert all(traced.dead)
