"""`RetryService`: calls, and the state of each name."""

import asyncio
import functools
import inspect
import subprocess
import sys
import threading
import time

import httpx
import pytest

from holdfast.errors import (
    AbandonedLimitError,
    AttemptTimeout,
    Category,
    CircuitOpenError,
    ConcurrencyLimitError,
    DeadlineExceeded,
    Permanent,
)
from holdfast.events import AttemptFailed, BreakerChanged, CallFinished, Event
from holdfast.resilience import active_call
from holdfast.resilience import service as service_module
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.breaker.transitions import Cause, CircuitState
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from holdfast.resilience.result import StopReason
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock, seeded_rng

STEADY = Exponential(base=1, jitter=0)
POLICY = RetryPolicy(backoff=STEADY)
DOWN = ConnectionRefusedError("down")


class _Holder:
    """Another caller that has a turn."""


class _Calls:
    """A service on a virtual clock, called in the blocking or in the asynchronous way."""

    def __init__(self, asynchronous: bool, **options):
        self.clock = VirtualClock()
        self.service = RetryService(clock=self.clock, rng=seeded_rng(), **options)
        self.asynchronous = asynchronous

    def run(self, outcomes, policy=POLICY, name="svc"):
        """Let the attempts of one call return or raise `outcomes` in turn."""
        script = iter(outcomes)

        def operation():
            outcome = next(script)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async def operation_async():
            return operation()

        if self.asynchronous:
            return self.clock.run(self.service.execute(operation_async, policy, name))
        return self.service.execute_sync(operation, policy, name)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def asynchronous(request):
    return request.param


@pytest.fixture
def calls(asynchronous):
    return _Calls(asynchronous)


def test_a_success_at_the_first_attempt(calls):
    result = calls.run(["value"])
    assert (result.ok, result.value, result.error, result.attempts) == (True, "value", None, 1)
    assert (result.history, result.stop_reason) == ((), StopReason.SUCCESS)
    assert calls.clock.sleeps == []


def test_failures_are_retried_until_a_success(calls):
    result = calls.run([DOWN, DOWN, "value"])
    assert (result.value, result.attempts, result.total_time) == ("value", 3, 3)
    assert [record.delay for record in result.history] == [1, 2]
    assert calls.clock.sleeps == [1, 2]


def test_the_error_of_the_last_attempt_is_the_calls(calls):
    errors = [ConnectionRefusedError(str(number)) for number in range(3)]
    result = calls.run(errors)
    assert result.error is errors[2]
    assert [record.error for record in result.history] == errors
    assert result.stop_reason is StopReason.ATTEMPTS


def test_nothing_that_the_operation_raises_is_raised_by_execute(calls):
    result = calls.run([Permanent("PARSE_ERROR")])
    assert (result.ok, result.attempts) == (False, 1)
    with pytest.raises(Permanent):
        result.unwrap()


def test_none_is_a_value(calls):
    assert calls.run([None]).ok
    result = calls.run([DOWN, None])
    assert result.ok
    assert result.value is None


def test_jitter_comes_from_the_services_own_generator(asynchronous):
    policy = RetryPolicy(max_attempts=4)
    slept = []
    for seed in (1, 1, 2):
        calls = _Calls(asynchronous)
        calls.service = RetryService(clock=calls.clock, rng=seeded_rng(seed))
        calls.run([DOWN] * 4, policy)
        slept.append(calls.clock.sleeps)
    assert slept[0] == slept[1] != slept[2]
    for delay, nominal in zip(slept[0], (1, 2, 4), strict=True):
        assert 0.8 * nominal <= delay <= 1.2 * nominal


# -- breakers by name --------------------------------------------------------------------------

TRIPPING = RetryPolicy(
    max_attempts=1,
    backoff=STEADY,
    breaker=BreakerPolicy(consecutive_failures=3, open_for=60, trial_calls=1),
)


def test_the_breaker_of_a_name_opens_refuses_and_recovers(calls):
    for _ in range(3):
        assert calls.run([DOWN], TRIPPING).error is DOWN
    assert calls.service.circuit_state("svc").state is CircuitState.OPEN
    refused = calls.run([AssertionError("called")], TRIPPING)
    assert (refused.stop_reason, refused.attempts) == (StopReason.BREAKER, 0)
    assert isinstance(refused.error, CircuitOpenError)
    assert refused.retry_at == calls.clock.wall() + 60
    calls.clock.advance(60)
    assert calls.service.circuit_state("svc").state is CircuitState.HALF_OPEN
    assert calls.run(["back"], TRIPPING).ok
    assert calls.service.circuit_state("svc").state is CircuitState.CLOSED


def test_a_success_on_the_plain_path_ends_a_streak(calls):
    for _ in range(5):
        calls.run([DOWN], TRIPPING)
        calls.run([DOWN], TRIPPING)
        calls.run(["value"], TRIPPING)
    assert calls.service.circuit_state("svc").state is CircuitState.CLOSED


def test_successes_on_the_plain_path_are_in_the_rates_window(calls):
    breaker = BreakerPolicy(consecutive_failures=None, failure_rate=0.5, window_calls=4)
    policy = RetryPolicy(max_attempts=1, breaker=breaker)
    for outcome in (DOWN, "value", DOWN, "value"):
        calls.run([outcome], policy)
    assert calls.service.circuit_state("svc").window_calls == 4
    assert calls.service.circuit_state("svc").window_failures == 2


def test_names_do_not_share_a_breaker(calls):
    for _ in range(3):
        calls.run([DOWN], TRIPPING, "one")
    assert calls.run(["value"], TRIPPING, "two").ok
    assert not calls.run(["value"], TRIPPING, "one").ok


def test_client_errors_neither_open_nor_count(calls):
    request = httpx.Request("GET", "http://downstream")
    error = httpx.HTTPStatusError(
        "404", request=request, response=httpx.Response(404, request=request)
    )
    for _ in range(10):
        assert calls.run([error], TRIPPING).stop_reason is StopReason.PERMANENT
    assert calls.service.circuit_state("svc").failure_count == 0


def test_a_trial_ended_by_a_client_error_releases_its_place(calls):
    for _ in range(3):
        calls.run([DOWN], TRIPPING)
    calls.clock.advance(60)
    assert calls.run([Permanent("PARSE_ERROR")], TRIPPING).attempts == 1
    assert calls.run(["value"], TRIPPING).ok


def test_a_circuit_is_reset_held_and_released_by_name(calls):
    calls.run(["value"], TRIPPING)
    calls.service.hold_circuit("svc")
    assert calls.service.circuit_state("svc").held
    refused = calls.run(["value"], TRIPPING)
    assert (refused.stop_reason, refused.retry_at) == (StopReason.BREAKER, None)
    calls.service.release_circuit("svc")
    assert calls.run(["value"], TRIPPING).ok
    for _ in range(3):
        calls.run([DOWN], TRIPPING)
    calls.service.reset_circuit("svc")
    assert calls.run(["value"], TRIPPING).ok


def test_a_name_without_a_breaker_can_be_held_and_stays_held_when_one_comes(calls):
    calls.run(["value"])
    calls.service.hold_circuit("svc")
    assert not calls.run(["value"]).ok
    assert not calls.run(["value"], TRIPPING).ok
    assert calls.service.circuit_state("svc").held


def test_a_guard_bound_before_the_breaker_came_obeys_it(calls):
    once = RetryPolicy(max_attempts=1)
    calls.run(["value"], once)
    for _ in range(3):
        calls.run([DOWN], TRIPPING)
    assert calls.run(["value"], once).stop_reason is StopReason.BREAKER


@pytest.mark.parametrize(
    "ask", ["circuit_state", "reset_circuit", "hold_circuit", "release_circuit", "metrics"]
)
def test_an_unknown_name_is_a_key_error_that_names_the_known_ones(ask):
    service = RetryService()
    with pytest.raises(KeyError, match="no operation named 'ordres'; known: none yet"):
        getattr(service, ask)("ordres")
    service.execute_sync(lambda: 1, POLICY, "orders")
    with pytest.raises(KeyError, match="known: orders"):
        getattr(service, ask)("ordres")


def test_names_are_sorted():
    service = RetryService()
    for name in ("b", "c", "a", "b"):
        service.execute_sync(lambda: 1, POLICY, name)
    assert service.names() == ["a", "b", "c"]


@pytest.mark.parametrize("recovers", [True, False])
def test_of_50_tasks_at_a_half_open_breaker_exactly_the_trials_go_through(recovers):
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(
        max_attempts=1,
        breaker=BreakerPolicy(consecutive_failures=1, open_for=60, trial_calls=3),
    )
    through = 0

    async def operation():
        nonlocal through
        through += 1
        await asyncio.sleep(1)
        if not recovers:
            raise DOWN

    async def main():
        service.execute_sync(_raise_down, policy, "svc")
        await asyncio.sleep(60)
        calls = (service.execute(operation, policy, "svc") for _ in range(50))
        return await asyncio.gather(*calls)

    results = clock.run(main())
    assert through == 3
    assert sum(result.breaker_triggered for result in results) == 47
    expected = CircuitState.CLOSED if recovers else CircuitState.OPEN
    assert service.circuit_state("svc").state is expected


def test_of_50_threads_at_a_half_open_breaker_exactly_the_trials_go_through():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    service.execute_sync(_raise_down, TRIPPING_AT_ONCE, "svc")
    clock.advance(60)
    barrier, release, counted = threading.Barrier(50), threading.Event(), threading.Semaphore(0)
    inside: list[int] = []
    refused: list[bool] = []

    def operation():
        inside.append(1)
        counted.release()
        release.wait(5)

    def caller():
        barrier.wait()
        result = service.execute_sync(operation, TRIPPING_AT_ONCE, "svc")
        if not result.ok:
            refused.append(result.breaker_triggered)
            counted.release()

    threads = [threading.Thread(target=caller) for _ in range(50)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        assert counted.acquire(timeout=60)
    assert (len(inside), refused) == (3, [True] * 47)
    release.set()
    for thread in threads:
        thread.join(5)
    assert service.circuit_state("svc").state is CircuitState.CLOSED


TRIPPING_AT_ONCE = RetryPolicy(
    max_attempts=1, breaker=BreakerPolicy(consecutive_failures=1, open_for=60, trial_calls=3)
)


def _raise_down() -> None:
    raise DOWN


@pytest.mark.parametrize("late_outcome", ["value", DOWN], ids=["success", "failure"])
def test_a_call_from_before_the_opening_that_ends_after_it_changes_nothing(late_outcome):
    clock = VirtualClock()
    service = RetryService(clock=clock)

    async def late():
        await asyncio.sleep(300)
        if isinstance(late_outcome, Exception):
            raise late_outcome
        return late_outcome

    async def main():
        slow = asyncio.create_task(service.execute(late, TRIPPING_AT_ONCE, "svc"))
        await asyncio.sleep(1)
        service.execute_sync(_raise_down, TRIPPING_AT_ONCE, "svc")
        await asyncio.sleep(60)
        for _ in range(3):
            service.execute_sync(lambda: 1, TRIPPING_AT_ONCE, "svc")
        before = service.circuit_state("svc")
        assert before.state is CircuitState.CLOSED
        await slow
        assert service.circuit_state("svc") == before

    clock.run(main())


class _Moving:
    """A breaker that becomes half open just after it was read as closed."""

    def __init__(self, breaker):
        self._breaker = breaker

    def __getattr__(self, name):
        return getattr(self._breaker, name)

    @property
    def closed(self):
        was_closed = self._breaker.closed
        self._breaker.hold()
        self._breaker.release()
        return was_closed


@pytest.mark.parametrize("outcome", ["value", DOWN], ids=["success", "failure"])
def test_a_call_permitted_before_the_breaker_opened_does_not_count(calls, outcome):
    breaker = BreakerPolicy(consecutive_failures=1, failure_rate=0.5, trial_calls=1)
    policy = RetryPolicy(max_attempts=1, breaker=breaker)
    calls.run(["value"], policy)
    guard = calls.service._guards["svc"]
    guard.breaker = _Moving(guard.breaker)
    calls.run([outcome], policy)
    state = calls.service.circuit_state("svc")
    assert state.state is CircuitState.HALF_OPEN
    assert (state.window_calls, state.window_failures) == (0, 0)


# -- limits by name ----------------------------------------------------------------------------


def test_a_rate_is_exact_and_charged_per_attempt(calls):
    policy = RetryPolicy(backoff=STEADY, rate=RateLimit(per_minute=3))
    starts = []

    for _ in range(4):
        script = iter([DOWN, "value"])

        def operation(script=script):
            starts.append(calls.clock.monotonic())
            outcome = next(script)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        async def operation_async(operation=operation):
            return operation()

        if calls.asynchronous:
            result = calls.clock.run(calls.service.execute(operation_async, policy, "svc"))
        else:
            result = calls.service.execute_sync(operation, policy, "svc")
        assert result.ok
    assert starts == [0, 1, 1, 60, 61, 62, 120, 121]


def test_a_daily_rate_stops_with_the_moment_when_it_is_free_again(calls):
    policy = RetryPolicy(rate=RateLimit(per_minute=10, per_day=2))
    calls.run(["a"], policy)
    calls.clock.advance(3600)
    calls.run(["b"], policy)
    result = calls.run(["c"], policy)
    assert result.stop_reason is StopReason.RATE_LIMIT
    assert result.retry_at == calls.clock.wall() + 86_400 - 3600
    calls.clock.advance(86_400 - 3600)
    assert calls.run(["c"], policy).ok


def test_a_retry_budget_bounds_the_retries_of_all_calls_together(calls):
    policy = RetryPolicy(
        max_attempts=2, backoff=Exponential(base=0), budget=RetryBudget(share=0.2, floor=3)
    )
    results = [calls.run([DOWN, DOWN], policy) for _ in range(50)]
    reasons = [result.stop_reason for result in results]
    assert reasons[:4] == [StopReason.ATTEMPTS] * 3 + [StopReason.BUDGET]
    assert sum(result.attempts - 1 for result in results) == 10


def test_a_limit_applies_to_calls_under_policies_without_it(calls):
    bound_before = RetryPolicy(max_attempts=1, backoff=Exponential(cap=10))
    calls.run(["value"], bound_before)
    limited = RetryPolicy(max_attempts=1, rate=RateLimit(per_minute=1))
    assert calls.run(["value"], limited).ok
    new = RetryPolicy(max_attempts=2, backoff=Exponential(cap=10))
    for policy in (bound_before, new, limited.__class__(max_attempts=1, backoff=new.backoff)):
        refused = calls.run(["value"], policy)
        assert (refused.stop_reason, refused.attempts) == (StopReason.RATE_LIMIT, 0)
    assert calls.run(["value"], bound_before, "another name").ok


def test_a_function_decorated_before_the_limit_came_keeps_to_it():
    service = RetryService(clock=VirtualClock())
    running = []

    @service.guard(RetryPolicy(max_attempts=1), "svc")
    def decorated() -> str:
        running.append(service._operations["svc"].gate)
        return "value"

    decorated()
    service.guard(RetryPolicy(concurrency=ConcurrencyLimit(1, max_wait=0)), "svc")
    decorated()
    assert running[0] is None
    assert running[1] is not None
    holder = _Holder()
    assert running[1].try_enter(holder)
    with pytest.raises(ConcurrencyLimitError):
        decorated()


def test_a_budget_that_came_later_bounds_the_retries_of_earlier_policies(calls):
    eager = RetryPolicy(max_attempts=5, backoff=Exponential(base=0))
    assert calls.run([DOWN] * 4 + ["value"], eager).ok
    calls.run(["value"], RetryPolicy(budget=RetryBudget(share=0, floor=1)))
    result = calls.run([DOWN] * 5, eager)
    assert (result.stop_reason, result.attempts) == (StopReason.BUDGET, 2)


def test_a_turn_is_refused_at_once_where_waiting_is_not_allowed():
    service = RetryService()
    policy = RetryPolicy(max_attempts=1, concurrency=ConcurrencyLimit(2, max_wait=0))
    inside, release = threading.Semaphore(0), threading.Event()
    threads = [
        threading.Thread(
            target=service.execute_sync,
            args=(lambda: (inside.release(), release.wait(5)), policy, "svc"),
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
        assert inside.acquire(timeout=60)
    result = service.execute_sync(lambda: 1, policy, "svc")
    assert (result.stop_reason, result.attempts) == (StopReason.CONCURRENCY, 0)
    assert isinstance(result.error, ConcurrencyLimitError)
    result = asyncio.run(service.execute(lambda: asyncio.sleep(0), policy, "svc"))
    assert result.stop_reason is StopReason.CONCURRENCY
    release.set()
    for thread in threads:
        thread.join(5)
    assert service.execute_sync(lambda: 1, policy, "svc").ok


def test_tasks_get_their_turns_in_the_order_of_their_calls():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    policy = RetryPolicy(concurrency=ConcurrencyLimit(2))
    started: list[int] = []
    running = most = 0

    async def call(number: int) -> None:
        async def operation():
            nonlocal running, most
            started.append(number)
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1

        assert (await service.execute(operation, policy, "svc")).ok

    async def main():
        await asyncio.gather(*(call(number) for number in range(10)))

    clock.run(main())
    assert started == list(range(10))
    assert most == 2
    assert clock.monotonic() == 5


def test_threads_and_tasks_share_one_limit_through_the_service():
    service = RetryService()
    policy = RetryPolicy(max_attempts=1, concurrency=ConcurrencyLimit(3))
    lock = threading.Lock()
    running = most = done = 0

    def enter():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)

    def leave():
        nonlocal running, done
        with lock:
            running -= 1
            done += 1

    def blocking():
        enter()
        leave()

    async def operation():
        enter()
        await asyncio.sleep(0)
        leave()

    def in_a_thread():
        for _ in range(25):
            assert service.execute_sync(blocking, policy, "svc").ok

    async def in_tasks():
        async def one():
            for _ in range(25):
                assert (await service.execute(operation, policy, "svc")).ok

        await asyncio.gather(*(one() for _ in range(4)))

    threads = [threading.Thread(target=in_a_thread) for _ in range(4)]
    threads.append(threading.Thread(target=lambda: asyncio.run(in_tasks())))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert done == 200
    assert most <= 3


# -- time limits -------------------------------------------------------------------------------


def test_the_attempt_timeout_cuts_every_attempt(asynchronous):
    calls = _Calls(asynchronous)
    policy = RetryPolicy(max_attempts=2, backoff=STEADY, attempt_timeout=3)
    if asynchronous:
        result = calls.clock.run(calls.service.execute(lambda: asyncio.sleep(100), policy, "svc"))
    else:
        result = calls.service.execute_sync(lambda: calls.clock.sleep(100), policy, "svc")
    assert (result.attempts, result.total_time) == (2, 7)
    assert isinstance(result.error, AttemptTimeout)
    assert [record.duration for record in result.history] == [3, 3]


def test_the_deadline_cuts_the_running_attempt(asynchronous):
    calls = _Calls(asynchronous)
    policy = RetryPolicy(max_attempts=5, backoff=STEADY, attempt_timeout=3, deadline=5)
    if asynchronous:
        result = calls.clock.run(calls.service.execute(lambda: asyncio.sleep(100), policy, "svc"))
    else:
        result = calls.service.execute_sync(lambda: calls.clock.sleep(100), policy, "svc")
    assert (result.attempts, result.total_time) == (2, 5)
    assert isinstance(result.error, DeadlineExceeded)
    assert result.stop_reason is StopReason.DEADLINE


# -- idempotency, with real errors -------------------------------------------------------------


def _status(code: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://downstream")
    return httpx.HTTPStatusError(
        str(code), request=request, response=httpx.Response(code, request=request)
    )


@pytest.mark.parametrize(
    "error,repeated",
    [
        (httpx.ReadTimeout("slow"), False),
        (httpx.ReadError("broken"), False),
        (_status(502), False),
        (_status(504), False),
        (TimeoutError(), False),
        (_status(503), True),
        (_status(429), True),
        (httpx.ConnectError("refused"), True),
        (httpx.ConnectTimeout("unreached"), True),
        (ConnectionRefusedError(), True),
    ],
    ids=repr,
)
def test_an_ambiguous_call_is_not_repeated_unless_it_is_idempotent(calls, error, repeated):
    unsafe = RetryPolicy(backoff=STEADY, idempotent=False)
    result = calls.run([error, "value"], unsafe)
    assert result.ok is repeated
    if not repeated:
        assert (result.stop_reason, result.attempts) == (StopReason.AMBIGUOUS, 1)
    assert calls.run([error, "value"], POLICY, "safe").ok


# -- statistics --------------------------------------------------------------------------------


def test_all_metrics_of_a_name_are_exact(calls):
    policy = RetryPolicy(
        backoff=STEADY,
        breaker=BreakerPolicy(consecutive_failures=4, open_for=60, trial_calls=1),
    )
    calls.run(["value"], policy)
    calls.run([DOWN, "value"], policy)
    calls.run([Permanent("PARSE_ERROR")], policy)
    calls.run([DOWN, DOWN, DOWN], policy)
    calls.run([DOWN], policy)
    calls.run([AssertionError("refused")], policy)
    calls.clock.advance(60)
    calls.run(["value"], policy)
    metrics = calls.service.metrics("svc")
    assert metrics.total_operations == 7
    assert metrics.successful_operations == 3
    assert metrics.success_rate == pytest.approx(3 / 7)
    assert metrics.total_retries == 3
    assert metrics.avg_retries_per_operation == pytest.approx(3 / 7)
    assert metrics.max_retries_reached == 1
    assert metrics.circuit_breaker_trips == 1
    assert metrics.circuit_breaker_recoveries == 1
    assert metrics.time_in_open_state == 60
    assert (metrics.transient_errors, metrics.permanent_errors) == (5, 1)
    assert metrics.retry_distribution == (4, 1, 1), "the refused call made no attempt at all"
    assert metrics.p50_latency == 0
    assert metrics.p95_latency == pytest.approx(3, rel=0.04)
    assert metrics.p99_latency == pytest.approx(3, rel=0.04)


def test_first_tries_are_folded_into_the_histogram_as_they_pile_up(asynchronous, monkeypatch):
    monkeypatch.setattr(active_call, "FOLD_AT", 10)
    calls = _Calls(asynchronous)
    for _ in range(95):
        calls.run(["value"])
    assert len(calls.service._operations["svc"].stats.first_tries) == 5
    assert calls.service.metrics("svc").total_operations == 95


def test_counts_are_exact_under_8_threads_with_10_000_calls_each():
    service = RetryService(rng=seeded_rng())
    policy = RetryPolicy(
        max_attempts=2,
        backoff=Exponential(base=0),
        breaker=BreakerPolicy(failure_rate=0.9, consecutive_failures=None, minimum_calls=20),
    )
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        numbers = iter(range(10**9))

        def operation():
            if next(numbers) % 100 == 0:
                raise DOWN
            return 1

        for _ in range(10_000):
            service.execute_sync(operation, policy, "svc")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics = service.metrics("svc")
    assert metrics.total_operations == metrics.successful_operations == 80_000
    # Each thread's operation runs until it has succeeded 10 000 times: 102 of its runs fail.
    assert metrics.transient_errors == metrics.total_retries == 8 * 102
    assert metrics.retry_distribution == (80_000 - 8 * 102, 8 * 102)


# -- listeners ---------------------------------------------------------------------------------


def test_listeners_get_all_events_in_order(asynchronous):
    told: list[Event] = []
    calls = _Calls(asynchronous, listeners=[told.append])
    calls.run(["value"], TRIPPING)
    calls.run([DOWN], TRIPPING)
    calls.run([DOWN], TRIPPING)
    calls.run([DOWN], TRIPPING)
    failed = AttemptFailed("svc", 1, DOWN, Category.TRANSIENT, 0.0, None)
    ended = CallFinished("svc", False, 1, 0.0, "ATTEMPTS")
    assert told == [
        CallFinished("svc", True, 1, 0.0, "SUCCESS"),
        failed,
        ended,
        failed,
        ended,
        BreakerChanged("svc", "CLOSED", "OPEN", str(Cause.STREAK)),
        failed,
        ended,
    ]


def test_a_failing_listener_hurts_nothing(asynchronous):
    def failing(event: Event) -> None:
        raise RuntimeError("listener")

    calls = _Calls(asynchronous, listeners=[failing])
    assert calls.run([DOWN, "value"]).ok


def test_a_listener_may_ask_and_call_the_service_itself(asynchronous):
    states = []

    def curious(event: Event) -> None:
        if event.name == "svc":
            states.append(calls.service.circuit_state("svc").state)
            calls.service.metrics("svc")
            calls.service.execute_sync(lambda: 1, LIMITED, "svc-log")
            if isinstance(event, CallFinished) and len(states) < 4:
                calls.service.execute_sync(lambda: 1, LIMITED, "svc")

    LIMITED = RetryPolicy(  # noqa: N806 - a constant of this test
        max_attempts=1,
        breaker=BreakerPolicy(consecutive_failures=1),
        concurrency=ConcurrencyLimit(1, max_wait=0),
    )
    calls = _Calls(asynchronous, listeners=[curious])
    calls.run(["value"], LIMITED)
    assert calls.service.metrics("svc").successful_operations == len(states) == 4
    calls.run([DOWN], LIMITED)
    assert states[-1] is CircuitState.OPEN


def test_a_call_made_by_a_listener_is_not_nested(asynchronous, caplog):
    attempts = []

    def alerting(event):
        if event.name == "svc":
            result = calls.service.execute_sync(_raise_down, POLICY, "alert")
            attempts.append(result.attempts)

    calls = _Calls(asynchronous, listeners=[alerting])
    calls.run([DOWN, "value"], RetryPolicy(backoff=STEADY, deadline=2))
    assert attempts == [3, 3], "one for the failed attempt and one for the end of the call"
    assert "runs inside" not in caplog.text


def test_what_follows_a_listeners_call_is_nested_as_before(asynchronous):
    def calling(event):
        if event.name != "log":
            calls.service.execute_sync(lambda: 1, POLICY, "log")

    calls = _Calls(asynchronous, listeners=[calling])
    attempts = []

    def operation():
        results = [calls.service.execute_sync(_raise_down, POLICY, "inner") for _ in range(2)]
        attempts.extend(result.attempts for result in results)

    calls.service.execute_sync(operation, POLICY, "outer")
    assert attempts == [1, 1]


# -- the decorator -----------------------------------------------------------------------------


def test_a_decorated_function_retries_and_returns_what_the_function_returns():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    attempts = []

    @service.guard(POLICY, "divide")
    def divide(a: int, b: int = 2, *, extra: int = 0) -> float:
        """Divide."""
        attempts.append((a, b, extra))
        if len(attempts) < 3:
            raise DOWN
        return a / b

    assert divide(8, extra=1) == 4
    assert attempts == [(8, 2, 1)] * 3
    assert (divide.__name__, divide.__doc__) == ("divide", "Divide.")
    assert list(inspect.signature(divide).parameters) == ["a", "b", "extra"]
    assert not inspect.iscoroutinefunction(divide)


def test_a_decorated_coroutine_function_stays_one():
    clock = VirtualClock()
    service = RetryService(clock=clock)
    attempts = []

    @service.guard(POLICY, "fetch")
    async def fetch(path: str) -> str:
        """Fetch."""
        attempts.append(path)
        if len(attempts) < 2:
            raise DOWN
        return path.upper()

    assert inspect.iscoroutinefunction(fetch)
    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch.")
    assert list(inspect.signature(fetch).parameters) == ["path"]
    assert clock.run(fetch("a")) == "A"
    assert attempts == ["a", "a"]


def test_a_decorated_function_raises_the_error_that_ended_the_call():
    service = RetryService(clock=VirtualClock())

    @service.guard(POLICY, "broken")
    def broken() -> None:
        raise DOWN

    with pytest.raises(ConnectionRefusedError) as raised:
        broken()
    assert raised.value is DOWN


def test_methods_class_methods_and_static_methods_can_be_decorated():
    service = RetryService()

    class Client:
        base = 10

        @service.guard(POLICY, "method")
        def method(self, number: int) -> int:
            return self.base + number

        @classmethod
        @service.guard(POLICY, "class method")
        def of_class(cls, number: int) -> int:
            return cls.base + number

        @staticmethod
        @service.guard(POLICY, "static method")
        async def static(number: int) -> int:
            return number

    assert Client().method(1) == 11
    assert Client.of_class(2) == 12
    assert asyncio.run(Client.static(3)) == 3


def test_partials_and_callable_objects_can_be_decorated_in_both_ways():
    service = RetryService()

    class Asynchronous:
        async def __call__(self, number: int) -> int:
            return number

    class Blocking:
        def __call__(self, number: int) -> int:
            return number

    async def add(a: int, b: int) -> int:
        return a + b

    decorate = service.guard(POLICY, "objects")
    assert asyncio.run(decorate(Asynchronous())(1)) == 1
    assert asyncio.run(decorate(functools.partial(add, 1))(2)) == 3
    assert decorate(Blocking())(4) == 4
    assert decorate(Asynchronous).__name__ == "Asynchronous", "the class itself is blocking"


def test_generator_functions_are_refused():
    service = RetryService()

    def generator():
        yield 1

    async def async_generator():
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="guard cannot wrap a generator function, got <func"):
            service.guard(POLICY, "items")(function)


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [None, 3, "call", POLICY])
@pytest.mark.parametrize("policy", [POLICY, RetryPolicy(deadline=5)])
def test_an_operation_that_is_not_callable_is_refused_with_its_value(operation, policy):
    service = RetryService()
    message = f"operation must be callable, got {operation!r}"
    for call in (
        lambda: service.execute_sync(operation, policy, "svc"),
        lambda: asyncio.run(service.execute(operation, policy, "svc")),
        lambda: service.guard(policy, "svc")(operation),
    ):
        with pytest.raises(TypeError) as refusal:
            call()
        assert str(refusal.value) == message


@pytest.mark.parametrize(
    "policy,name,error,named",
    [
        (None, "svc", TypeError, "policy must be a RetryPolicy, got None"),
        ("GEMINI_API", "svc", TypeError, "policy must be a RetryPolicy, got 'GEMINI_API'"),
        (POLICY, "", ValueError, "name must not be empty, got ''"),
        (POLICY, 5, TypeError, "name must be a string, got 5"),
        (POLICY, None, TypeError, "name must be a string, got None"),
        (POLICY, ["svc"], TypeError, "name must be a string, got ['svc']"),
        (POLICY, {}, TypeError, "name must be a string, got {}"),
    ],
)
def test_a_bad_policy_or_name_is_refused_with_its_field_and_value(policy, name, error, named):
    service = RetryService()
    for call in (
        lambda: service.execute_sync(lambda: 1, policy, name),
        lambda: asyncio.run(service.execute(lambda: asyncio.sleep(0), policy, name)),
        lambda: service.guard(policy, name),
    ):
        with pytest.raises(error) as refusal:
            call()
        assert str(refusal.value) == named


@pytest.mark.parametrize(
    "options,error,named",
    [
        ({"nested": "multiply"}, ValueError, 'nested must be "collapse" or "allow", got'),
        ({"rng": 42}, TypeError, "rng must be a Random, got 42"),
        ({"clock": None}, TypeError, "clock must be a Clock, got None"),
        ({"clock": time}, TypeError, "clock must be a Clock, got <module 'time' (built-in)>"),
        ({"listeners": print}, TypeError, "listeners must be a list of callables, got <built-in"),
        ({"listeners": [1]}, TypeError, "listeners must be callable, got 1"),
    ],
)
def test_a_bad_service_is_refused_with_its_field_and_value(options, error, named):
    with pytest.raises(error) as refusal:
        RetryService(**options)
    assert named in str(refusal.value)


def test_an_asynchronous_operation_given_to_execute_sync_is_refused(calls):
    async def asynchronous():
        return 1

    for policy in (POLICY, RetryPolicy(attempt_timeout=1)):
        with pytest.raises(TypeError, match="operation must be blocking"):
            calls.service.execute_sync(asynchronous, policy, "svc")


def test_a_blocking_operation_given_to_execute_is_refused(calls):
    for policy in (POLICY, RetryPolicy(attempt_timeout=1)):
        with pytest.raises(TypeError, match="operation must return an awaitable, got 1"):
            calls.clock.run(calls.service.execute(lambda: 1, policy, "svc"))


def test_a_mistake_inside_a_guarded_call_is_not_taken_for_its_failure(calls):
    async def asynchronous():
        return 1

    for policy in (POLICY, RetryPolicy(attempt_timeout=1)):
        with pytest.raises(TypeError, match="operation must be blocking"):
            calls.service.execute_sync(
                lambda: calls.service.execute_sync(asynchronous, POLICY, "inner"), policy, "svc"
            )


def test_a_conflicting_policy_under_one_name_is_refused_and_changes_nothing(calls):
    calls.run(["value"], TRIPPING)
    other = RetryPolicy(breaker=BreakerPolicy(consecutive_failures=9), rate=RateLimit(per_day=1))
    with pytest.raises(ValueError, match="breaker of 'svc' is already"):
        calls.run(["value"], other)
    assert calls.run(["value"], RetryPolicy(rate=RateLimit(per_day=2))).ok


def test_new_policies_for_every_call_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(service_module, "_MOST_BOUND", 50)
    service = RetryService()
    for number in range(1, 500):
        policy = RetryPolicy(max_attempts=number, concurrency=ConcurrencyLimit(3))
        assert service.execute_sync(lambda: 1, policy, "svc").ok
    assert len(service._bound) <= 50
    assert service.metrics("svc").total_operations == 499


def test_equal_policies_are_one_binding():
    service = RetryService()
    for _ in range(100):
        service.execute_sync(lambda: 1, RetryPolicy(max_attempts=2), "svc")
    assert len(service._bound) == 1


# -- threads of blocking attempts that are over their time --------------------------------------


class _Blocked:
    """A service with the maximum of abandoned threads for one name."""

    def __init__(self):
        self.service = RetryService(max_abandoned=2)
        breaker = BreakerPolicy(consecutive_failures=1000)
        impatient = RetryPolicy(max_attempts=1, attempt_timeout=0.02, breaker=breaker)
        self.policy = RetryPolicy(max_attempts=1, attempt_timeout=60, breaker=breaker)
        self.release = threading.Event()
        abandoned = 0
        while abandoned < 2:  # on a busy machine an attempt's time may pass before it begins
            error = self.service.execute_sync(self.release.wait, impatient, "svc").error
            assert isinstance(error, AttemptTimeout)
            abandoned = self.service.metrics("svc").abandoned_threads


@pytest.fixture
def blocked():
    scene = _Blocked()
    yield scene
    scene.release.set()


def test_abandoned_threads_are_counted_in_the_metrics_until_they_end(blocked):
    assert blocked.service.metrics("svc").abandoned_threads == 2
    blocked.release.set()
    for _ in range(30_000):
        if not blocked.service.metrics("svc").abandoned_threads:
            break
        time.sleep(0.001)
    assert blocked.service.metrics("svc").abandoned_threads == 0
    assert blocked.service.execute_sync(lambda: "again", blocked.policy, "svc").value == "again"


def test_past_the_bound_a_blocking_attempt_with_a_limit_is_refused_at_once(blocked):
    made = []
    result = blocked.service.execute_sync(lambda: made.append(1), blocked.policy, "svc")
    assert isinstance(result.error, AbandonedLimitError)
    assert str(result.error).startswith("svc: 2 attempts that are over their time still block")
    assert "holdfast.cancelled()" in str(result.error)
    assert (made, result.attempts, result.stop_reason) == ([], 0, StopReason.CONCURRENCY)


def test_such_a_refusal_does_not_count_against_the_downstream(blocked):
    before = blocked.service.circuit_state("svc")
    for _ in range(10):
        blocked.service.execute_sync(int, blocked.policy, "svc")
    assert blocked.service.circuit_state("svc").failure_count == before.failure_count

    def outer():
        return blocked.service.execute_sync(int, blocked.policy, "svc").unwrap()

    strict = RetryPolicy(max_attempts=1, breaker=BreakerPolicy(consecutive_failures=1))
    result = blocked.service.execute_sync(outer, strict, "outer")
    assert isinstance(result.error, AbandonedLimitError)
    assert blocked.service.circuit_state("outer").state is CircuitState.CLOSED


def test_calls_without_a_limit_asynchronous_ones_and_other_names_go_on(blocked):
    service = blocked.service
    assert service.execute_sync(lambda: 1, RetryPolicy(max_attempts=1), "svc").value == 1
    assert service.execute_sync(lambda: 1, blocked.policy, "other").value == 1

    async def operation():
        return 1

    assert asyncio.run(service.execute(operation, blocked.policy, "svc")).value == 1


def test_a_retry_past_the_bound_ends_the_call_with_the_downstreams_error():
    release = threading.Event()
    policy = RetryPolicy(max_attempts=1000, backoff=Exponential(base=0), attempt_timeout=0.02)
    result = RetryService(max_abandoned=2).execute_sync(release.wait, policy, "svc")
    release.set()
    assert result.stop_reason is StopReason.CONCURRENCY
    assert isinstance(result.error, AttemptTimeout)


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, None])
def test_a_bound_for_abandoned_threads_that_is_not_a_positive_number_is_refused(bound):
    with pytest.raises((TypeError, ValueError), match="max_abandoned"):
        RetryService(max_abandoned=bound)


def test_a_forked_child_has_no_abandoned_threads_and_a_program_ends_despite_them():
    program = """
import os, threading
from holdfast import RetryPolicy, RetryService
service = RetryService(max_abandoned=1)
policy = RetryPolicy(max_attempts=1, attempt_timeout=60)
while True:
    impatient = RetryPolicy(max_attempts=1, attempt_timeout=0.01)
    service.execute_sync(threading.Event().wait, impatient, "svc")
    if service.metrics("svc").abandoned_threads == 1:
        break
child = os.fork()
if child == 0:
    fine = service.metrics("svc").abandoned_threads == 0
    os._exit(0 if fine and service.execute_sync(lambda: 1, policy, "svc").ok else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
