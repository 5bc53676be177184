"""`remaining()` and `cancelled()` in running code."""

import asyncio
import threading
from contextlib import suppress

import pytest

import holdfast
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock
from holdfast.time_limit import TimeLimit, cancelled, remaining


def test_both_questions_are_public():
    assert (holdfast.remaining, holdfast.cancelled) == (remaining, cancelled)


def test_outside_of_any_attempt_there_is_no_limit():
    assert remaining() is None
    assert cancelled() is False


def test_the_time_left_runs_down_to_zero_and_then_the_attempt_is_cancelled():
    clock = VirtualClock()
    with TimeLimit(5, clock.monotonic):
        assert (remaining(), cancelled()) == (5, False)
        clock.advance(4)
        assert (remaining(), cancelled()) == (1, False)
        clock.advance(4)
        assert (remaining(), cancelled()) == (0, True)
    assert remaining() is None


@pytest.mark.parametrize(("outer", "inner"), [(5, 9), (9, 5), (5, None), (None, 5)])
def test_of_nested_limits_the_sooner_counts(outer, inner):
    clock = VirtualClock()
    with TimeLimit(outer, clock.monotonic):
        with TimeLimit(inner, clock.monotonic):
            assert remaining() == 5
        assert remaining() == outer


def test_without_a_limit_in_seconds_there_is_none():
    with TimeLimit(None, VirtualClock().monotonic):
        assert remaining() is None
        assert cancelled() is False


FAILURES = (ValueError, asyncio.CancelledError, KeyboardInterrupt)


def _left_running(kind: type[BaseException] | None, seconds: float | None):
    """Return what a task that outlives its attempt reads, once the attempt has ended."""

    async def main():
        ended = asyncio.Event()

        async def left():
            await ended.wait()
            return cancelled()

        with suppress(*FAILURES), TimeLimit(seconds, VirtualClock().monotonic):
            task = asyncio.create_task(left())
            if kind is not None:
                raise kind
        ended.set()
        return await task

    return asyncio.run(main())


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("seconds", [None, 5])
def test_tasks_left_by_a_failed_attempt_are_cancelled(kind, seconds):
    assert _left_running(kind, seconds) is True


def test_tasks_left_by_a_successful_attempt_are_not_cancelled():
    assert _left_running(None, None) is False


# -- in guarded operations ---------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (RetryPolicy(), None),
        (RetryPolicy(attempt_timeout=5), 5),
        (RetryPolicy(deadline=7), 7),
        (RetryPolicy(attempt_timeout=5, deadline=3), 3),
    ],
)
def test_a_guarded_operation_reads_the_limit_of_its_attempt(policy, seconds, asynchronous):
    clock = VirtualClock()
    service = RetryService(clock=clock)

    async def operation_async():
        return remaining(), cancelled()

    if asynchronous:
        result = clock.run(service.execute(operation_async, policy, "svc"))
    else:
        result = service.execute_sync(lambda: (remaining(), cancelled()), policy, "svc")
    assert result.value == (seconds, False)
    assert remaining() is None


def test_a_plain_call_inside_a_limited_one_reads_the_outer_limit():
    clock = VirtualClock()
    service = RetryService(clock=clock)

    def operation():
        return service.execute_sync(remaining, RetryPolicy(), "inner").unwrap()

    outer = RetryPolicy(attempt_timeout=5)
    assert service.execute_sync(operation, outer, "outer").value == 5


def test_an_asynchronous_operation_that_is_cut_off_reads_it_in_its_cleanup():
    clock = VirtualClock()
    seen = []

    async def operation():
        try:
            await asyncio.sleep(100)
        finally:
            seen.append((remaining(), cancelled()))

    policy = RetryPolicy(max_attempts=1, attempt_timeout=5)
    clock.run(RetryService(clock=clock).execute(operation, policy, "svc"))
    assert seen == [(0, True)]


def test_a_thread_of_an_asynchronous_operation_whose_caller_was_cancelled_reads_it():
    started, ended = threading.Event(), threading.Event()

    def in_thread():
        started.set()
        while not cancelled():
            ended.wait(0.001)
        ended.set()

    async def main():
        service = RetryService()
        call = service.execute(
            lambda: asyncio.to_thread(in_thread), RetryPolicy(attempt_timeout=60), "svc"
        )
        task = asyncio.create_task(call)
        while not started.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended.wait(30)


def test_a_blocking_operation_that_asks_ends_soon_after_it_was_abandoned():
    started, ended = threading.Event(), threading.Event()

    def operation():
        started.set()
        while not cancelled():
            ended.wait(0.001)
        ended.set()

    service = RetryService()
    policy = RetryPolicy(max_attempts=1, attempt_timeout=0.02)
    while not started.is_set():  # on a busy machine its limit may pass before it begins
        service.execute_sync(operation, policy, "svc")
    assert ended.wait(30)


def test_a_guarded_call_inside_an_abandoned_attempt_is_not_retried():
    service = RetryService(nested="allow")
    started, release, done = threading.Event(), threading.Event(), threading.Event()
    results = []

    def failing():
        started.set()
        release.wait()
        raise ConnectionRefusedError("down")

    def operation():
        results.append(service.execute_sync(failing, RetryPolicy(max_attempts=5), "inner"))
        done.set()

    outer = RetryPolicy(max_attempts=1, attempt_timeout=0.02)
    while not started.is_set():
        assert not service.execute_sync(operation, outer, "outer").ok
    release.set()
    assert done.wait(30)
    assert results[0].attempts == 1
    assert results[0].stop_reason == "DEADLINE"


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_what_an_operation_returns_because_it_is_cancelled_is_not_taken_for_a_result(
    asynchronous, ends
):
    clock = VirtualClock()
    service = RetryService(clock=clock)

    def operation():
        clock.advance(5)
        assert cancelled()
        if ends == "raises":
            raise ValueError("half of it")
        return "half of it"

    async def operation_async():
        return operation()

    policy = RetryPolicy(max_attempts=1, attempt_timeout=5)
    if asynchronous:
        result = clock.run(service.execute(operation_async, policy, "svc"))
    else:
        result = service.execute_sync(operation, policy, "svc")
    assert isinstance(result.error, holdfast.AttemptTimeout)
