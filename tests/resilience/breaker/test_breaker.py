"""The breaker in memory."""

import asyncio
import threading

import httpx
import pytest

from holdfast.errors import CircuitOpenError, Permanent
from holdfast.events import BreakerChanged, Event
from holdfast.resilience.breaker.breaker import CircuitBreaker
from holdfast.resilience.breaker.transitions import Cause, CircuitState, Permit
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing import VirtualClock

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


def _breaker(clock: VirtualClock | None = None, listeners=(), **policy) -> CircuitBreaker:
    return CircuitBreaker(
        BreakerPolicy(**policy), name="svc", clock=clock or VirtualClock(), listeners=listeners
    )


def _raise(error: BaseException):
    raise error


def _fail(breaker: CircuitBreaker, times: int = 1, error: type[Exception] = ConnectionError):
    for _ in range(times):
        with pytest.raises(error):
            breaker.call(_raise, error("down"))


def _acquired(breaker: CircuitBreaker) -> Permit:
    permit = breaker.try_acquire()
    assert permit is not None
    return permit


# -- opening -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_it_opens_on_exactly_the_nth_consecutive_failure(limit):
    breaker = _breaker(consecutive_failures=limit)
    _fail(breaker, limit - 1)
    assert breaker.state is CLOSED
    _fail(breaker)
    assert breaker.state is OPEN


def test_a_success_in_between_resets_the_count():
    breaker = _breaker(consecutive_failures=3)
    for _ in range(10):
        _fail(breaker, 2)
        assert breaker.call(lambda: 1) == 1
    assert breaker.state is CLOSED
    assert breaker.snapshot().failure_count == 0


def test_it_opens_by_rate_over_the_last_calls_only_above_the_limit_and_with_enough_calls():
    breaker = _breaker(consecutive_failures=None, failure_rate=0.5, window_calls=10)
    for _ in range(5):
        _fail(breaker)
        breaker.call(lambda: 1)
    assert breaker.state is CLOSED, "half is not above half"
    assert (breaker.snapshot().window_calls, breaker.snapshot().window_failures) == (10, 5)
    _fail(breaker)
    assert breaker.state is CLOSED, "the failure that came pushed one out"
    _fail(breaker)
    assert breaker.state is OPEN


def test_it_does_not_open_by_rate_before_the_minimum_of_calls():
    breaker = _breaker(
        consecutive_failures=None, failure_rate=0.1, window_calls=20, minimum_calls=8
    )
    _fail(breaker, 7)
    assert breaker.state is CLOSED
    _fail(breaker)
    assert breaker.state is OPEN


def test_a_success_with_which_enough_calls_are_there_opens_it_by_rate():
    breaker = _breaker(
        consecutive_failures=None, failure_rate=0.5, window_calls=20, minimum_calls=4
    )
    _fail(breaker, 3)
    assert breaker.state is CLOSED
    breaker.call(lambda: 1)
    assert breaker.state is OPEN


def test_a_rate_of_at_least_opens_it_at_the_limit():
    breaker = _breaker(
        consecutive_failures=None, failure_rate=0.5, window_calls=4, rate_rule="at_least"
    )
    for _ in range(2):
        breaker.call(lambda: 1)
    _fail(breaker)
    assert breaker.state is CLOSED
    _fail(breaker)
    assert breaker.state is OPEN


def test_the_streak_rule_works_beside_a_rate_rule_that_is_far_from_its_limit():
    breaker = _breaker(consecutive_failures=3, failure_rate=0.9, window_calls=100)
    for _ in range(50):
        breaker.call(lambda: 1)
    _fail(breaker, 3)
    assert breaker.state is OPEN
    assert breaker.snapshot().window_calls == 0, "a new generation counts anew"


def test_the_rate_rule_works_beside_a_streak_that_never_comes():
    told: list[Event] = []
    breaker = _breaker(
        listeners=[told.append], consecutive_failures=5, failure_rate=0.4, window_calls=10
    )
    for _ in range(5):
        _fail(breaker)
        breaker.call(lambda: 1)
    assert breaker.state is OPEN
    assert told == [BreakerChanged("svc", "CLOSED", "OPEN", str(Cause.RATE))]


def test_the_rate_over_time_forgets_failures_that_are_older_than_the_window():
    clock = VirtualClock()
    breaker = _breaker(
        clock, consecutive_failures=None, failure_rate=0.5, window_seconds=60, minimum_calls=4
    )
    _fail(breaker, 3)
    clock.advance(60)
    for _ in range(3):
        breaker.call(lambda: 1)
    _fail(breaker, 2)
    assert breaker.state is CLOSED
    _fail(breaker, 2)
    assert breaker.state is OPEN


def test_after_a_long_idle_time_the_window_is_shown_empty():
    clock = VirtualClock()
    breaker = _breaker(
        clock, consecutive_failures=None, failure_rate=0.5, window_seconds=60, minimum_calls=10
    )
    _fail(breaker, 5)
    assert breaker.snapshot().window_failures == 5
    clock.advance(3600)
    assert (breaker.snapshot().window_calls, breaker.snapshot().window_failures) == (0, 0)
    _fail(breaker, 9)
    assert breaker.state is CLOSED


# -- what counts -------------------------------------------------------------------------------


class _Excluded(ConnectionError):
    pass


def _http_error(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://downstream")
    return httpx.HTTPStatusError(
        str(status), request=request, response=httpx.Response(status, request=request)
    )


NEITHER = [
    _Excluded("not its fault"),
    _http_error(400),
    _http_error(404),
    _http_error(429),
    ValueError("validation error"),
    Permanent("PARSE_ERROR"),
    CircuitOpenError("another"),
    KeyboardInterrupt(),
    SystemExit(),
    asyncio.CancelledError(),
]


@pytest.mark.parametrize("error", NEITHER, ids=repr)
def test_an_error_that_does_not_count_neither_extends_nor_ends_a_streak(error):
    breaker = _breaker(consecutive_failures=2, exclude=(_Excluded,))
    for _ in range(5):
        with pytest.raises(type(error)):
            breaker.call(_raise, error)
    assert breaker.state is CLOSED
    _fail(breaker)
    with pytest.raises(type(error)):
        breaker.call(_raise, error)
    assert breaker.snapshot().failure_count == 1
    _fail(breaker)
    assert breaker.state is OPEN


@pytest.mark.parametrize("error", NEITHER, ids=repr)
def test_an_error_that_does_not_count_releases_a_trials_place(error):
    clock = VirtualClock()
    breaker = _breaker(
        clock, consecutive_failures=1, open_for=60, trial_calls=1, exclude=(_Excluded,)
    )
    _fail(breaker)
    clock.advance(60)
    for _ in range(3):
        with pytest.raises(type(error)):
            breaker.call(_raise, error)
        assert breaker.state is HALF_OPEN
    assert breaker.call(lambda: 1) == 1
    assert breaker.state is CLOSED


def test_an_error_that_does_not_count_is_not_in_the_rates_window():
    breaker = _breaker(consecutive_failures=None, failure_rate=0.5, window_calls=4)
    for _ in range(20):
        _fail(breaker, 1, TypeError)
    assert breaker.snapshot().window_calls == 0


def test_a_server_error_counts():
    breaker = _breaker(consecutive_failures=1)
    with pytest.raises(httpx.HTTPStatusError):
        breaker.call(_raise, _http_error(503))
    assert breaker.state is OPEN


# -- open and half open ------------------------------------------------------------------------


def test_an_open_breaker_refuses_without_calling_and_has_the_time_of_the_retry():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60)
    _fail(breaker)
    with pytest.raises(CircuitOpenError) as refused:
        breaker.call(_raise, AssertionError("called"))
    assert refused.value.name == "svc"
    assert refused.value.retry_at == clock.wall() + 60
    assert breaker.snapshot().refused == 1


def test_time_that_steps_on_the_wall_does_not_move_the_breaker():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60)
    _fail(breaker)
    clock.step_wall(3600)
    assert breaker.state is OPEN
    assert breaker.snapshot().next_attempt_at == clock.wall() + 60


@pytest.mark.parametrize("trial_calls", [1, 3, 7])
def test_of_50_threads_at_once_exactly_trial_calls_go_through(trial_calls):
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60, trial_calls=trial_calls)
    _fail(breaker)
    clock.advance(60)
    barrier, release = threading.Barrier(50), threading.Event()
    inside, refused = [], []
    counted = threading.Semaphore(0)

    def caller():
        barrier.wait()
        try:
            breaker.call(lambda: (inside.append(1), counted.release(), release.wait(5)))
        except CircuitOpenError:
            refused.append(1)
            counted.release()

    threads = [threading.Thread(target=caller) for _ in range(50)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        assert counted.acquire(timeout=5)
    assert (len(inside), len(refused)) == (trial_calls, 50 - trial_calls)
    assert breaker.state is HALF_OPEN
    release.set()
    for thread in threads:
        thread.join(5)
    assert breaker.state is CLOSED
    assert breaker.snapshot().recoveries == 1


def test_of_50_tasks_at_once_exactly_trial_calls_go_through_and_close_it():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60, trial_calls=3)
    _fail(breaker)
    clock.advance(60)
    through = 0

    async def operation():
        nonlocal through
        through += 1
        await asyncio.sleep(1)

    async def all_at_once():
        calls = (breaker.acall(operation) for _ in range(50))
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = clock.run(all_at_once())
    assert through == 3
    assert sum(isinstance(outcome, CircuitOpenError) for outcome in outcomes) == 47
    assert breaker.state is CLOSED


def test_one_failed_trial_opens_it_again_and_the_other_trials_no_longer_matter():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60, trial_calls=3)
    _fail(breaker)
    clock.advance(60)
    first, second, third = (_acquired(breaker) for _ in range(3))
    breaker.record_success(first)
    breaker.record_failure(second)
    assert breaker.state is OPEN
    breaker.record_success(third)
    assert breaker.state is OPEN
    assert breaker.snapshot().trips == 2


def test_a_trial_that_never_returns_does_not_block_for_ever():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60, trial_calls=1, trial_timeout=5)
    _fail(breaker)
    clock.advance(60)
    hanging = _acquired(breaker)
    clock.advance(4.9)
    assert breaker.refuses()
    assert breaker.try_acquire() is None
    clock.advance(0.1)
    assert not breaker.refuses()
    breaker.record_success(_acquired(breaker))
    assert breaker.state is CLOSED
    breaker.record_failure(hanging)
    assert breaker.state is CLOSED
    assert breaker.snapshot().failure_count == 0


def test_asking_whether_it_refuses_takes_no_place_and_counts_nothing():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60, trial_calls=1)
    assert not breaker.refuses()
    _fail(breaker)
    assert breaker.refuses()
    clock.advance(60)
    assert [breaker.refuses() for _ in range(3)] == [False] * 3
    assert breaker.snapshot().refused == 0
    _acquired(breaker)
    assert breaker.refuses()


def test_a_late_result_of_the_closed_time_changes_nothing_later():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=2, open_for=60, trial_calls=1)
    early_success, early_failure = _acquired(breaker), _acquired(breaker)
    _fail(breaker, 2)
    breaker.record_success(early_success)
    breaker.record_failure(early_failure)
    assert (breaker.state, breaker.snapshot().trips) == (OPEN, 1)
    clock.advance(60)
    trial = _acquired(breaker)
    breaker.record_success(early_success)
    breaker.record_failure(early_failure)
    assert breaker.state is HALF_OPEN
    breaker.record_success(trial)
    breaker.record_failure(early_failure)
    assert breaker.state is CLOSED
    assert breaker.snapshot().failure_count == 0


def test_a_late_result_is_not_counted_in_the_window():
    breaker = _breaker(consecutive_failures=1, failure_rate=0.5, window_calls=2)
    late = _acquired(breaker)
    _fail(breaker)
    breaker.reset()
    breaker.record_failure(late)
    breaker.record_success(late)
    assert breaker.snapshot().window_calls == 0


def test_ten_threads_in_slow_calls_do_not_wait_for_each_other():
    breaker = CircuitBreaker(BreakerPolicy(failure_rate=0.5))
    # It opens only while all ten are inside their operations at the same time.
    barrier = threading.Barrier(10)
    threads = [
        threading.Thread(target=breaker.call, args=(lambda: barrier.wait(5),)) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not barrier.broken
    assert (breaker.snapshot().window_calls, breaker.snapshot().window_failures) == (10, 0)


# -- by hand -----------------------------------------------------------------------------------


def test_reset_closes_it_and_forgets_all_counts():
    breaker = _breaker(consecutive_failures=2, failure_rate=0.9, window_calls=50)
    _fail(breaker, 2)
    breaker.reset()
    snapshot = breaker.snapshot()
    assert (snapshot.state, snapshot.failure_count) == (CLOSED, 0)
    assert (snapshot.window_calls, snapshot.next_attempt_at) == (0, None)
    assert snapshot.recoveries == 0, "a person closed it, not its trials"
    _fail(breaker)
    assert breaker.state is CLOSED


def test_a_held_breaker_refuses_until_it_is_released():
    clock = VirtualClock()
    breaker = _breaker(clock, trial_calls=1)
    breaker.hold()
    clock.advance(1e6)
    snapshot = breaker.snapshot()
    assert (snapshot.state, snapshot.held, snapshot.next_attempt_at) == (OPEN, True, None)
    with pytest.raises(CircuitOpenError) as refused:
        breaker.call(lambda: 1)
    assert refused.value.retry_at is None
    breaker.release()
    assert (breaker.state, breaker.snapshot().held) == (HALF_OPEN, False)
    assert breaker.call(lambda: 1) == 1
    assert breaker.state is CLOSED


def test_reset_ends_a_hold_too():
    breaker = _breaker()
    breaker.hold()
    breaker.reset()
    assert breaker.state is CLOSED


def test_release_does_nothing_to_a_breaker_that_is_not_open():
    told: list[Event] = []
    breaker = _breaker(listeners=[told.append])
    breaker.release()
    assert breaker.state is CLOSED
    assert told == []


def test_another_policy_resets_the_counts():
    breaker = _breaker(consecutive_failures=100)
    early = _acquired(breaker)
    _fail(breaker, 50)
    breaker.judge_by(BreakerPolicy(consecutive_failures=3))
    breaker.record_failure(early)
    _fail(breaker, 2)
    assert breaker.state is CLOSED
    _fail(breaker)
    assert breaker.state is OPEN


def test_another_policy_does_not_end_a_hold():
    breaker = _breaker()
    breaker.hold()
    breaker.judge_by(BreakerPolicy(failure_rate=0.5, window_calls=2))
    assert breaker.snapshot().held
    with pytest.raises(CircuitOpenError):
        breaker.call(lambda: 1)


# -- what is known -----------------------------------------------------------------------------


def test_trips_recoveries_and_the_time_open_are_counted():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60, trial_calls=1)
    for _ in range(3):
        _fail(breaker)
        clock.advance(100)
        breaker.call(lambda: 1)
    snapshot = breaker.snapshot()
    assert (snapshot.trips, snapshot.recoveries) == (3, 3)
    assert snapshot.time_in_open_state == 180, "an opening ends when its time is over"


def test_the_present_opening_is_part_of_the_time_open():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60)
    opened = clock.wall()
    _fail(breaker)
    clock.advance(25)
    snapshot = breaker.snapshot()
    assert snapshot.time_in_open_state == 25
    assert (snapshot.opened_at, snapshot.next_attempt_at) == (opened, opened + 60)


def test_a_hold_after_the_cooling_time_counts_only_the_time_that_it_was_open():
    clock = VirtualClock()
    breaker = _breaker(clock, consecutive_failures=1, open_for=60)
    _fail(breaker)
    clock.advance(1000)
    breaker.hold()
    clock.advance(10)
    assert breaker.snapshot().time_in_open_state == 70
    breaker.release()
    clock.advance(500)
    assert breaker.snapshot().time_in_open_state == 70
    assert breaker.snapshot().trips == 1, "it was open already"


def test_listeners_get_every_change_in_order_and_outside_the_lock():
    clock = VirtualClock()
    told: list[tuple[Event, CircuitState]] = []
    breaker = _breaker(
        clock,
        listeners=[lambda event: told.append((event, breaker.snapshot().state))],
        consecutive_failures=1,
        open_for=60,
        trial_calls=1,
    )
    _fail(breaker)
    clock.advance(60)
    breaker.call(lambda: 1)
    breaker.hold()
    breaker.reset()
    assert told == [
        (BreakerChanged("svc", "CLOSED", "OPEN", str(Cause.STREAK)), OPEN),
        (BreakerChanged("svc", "OPEN", "HALF_OPEN", str(Cause.COOLED)), HALF_OPEN),
        (BreakerChanged("svc", "HALF_OPEN", "CLOSED", str(Cause.TRIALS_SUCCEEDED)), CLOSED),
        (BreakerChanged("svc", "CLOSED", "OPEN", str(Cause.HOLD)), OPEN),
        (BreakerChanged("svc", "OPEN", "CLOSED", str(Cause.RESET)), CLOSED),
    ]


def test_a_failing_listener_hurts_nothing():
    breaker = _breaker(listeners=[lambda event: _raise(RuntimeError())], consecutive_failures=1)
    _fail(breaker)
    assert breaker.state is OPEN


# -- misuse ------------------------------------------------------------------------------------


async def _asynchronous(value: int = 1) -> int:
    return value


def test_call_passes_arguments_on_and_acall_awaits():
    breaker = _breaker()
    assert breaker.call(divmod, 7, 2) == (3, 1)
    assert asyncio.run(breaker.acall(_asynchronous, value=9)) == 9


def test_an_asynchronous_operation_in_call_is_refused_and_not_taken_for_a_success():
    breaker = _breaker()
    with pytest.raises(TypeError, match="operation must be blocking"):
        breaker.call(_asynchronous)


def test_a_blocking_operation_in_acall_is_refused():
    breaker = _breaker()
    with pytest.raises(TypeError, match="operation must return an awaitable, got 3"):
        asyncio.run(breaker.acall(lambda: 3))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("operation", [None, 3, "call"])
def test_an_operation_that_is_not_callable_is_refused_with_its_value(operation):
    breaker = _breaker()
    with pytest.raises(TypeError, match=f"operation must be callable, got {operation!r}"):
        breaker.call(operation)
    with pytest.raises(TypeError, match=f"operation must be callable, got {operation!r}"):
        asyncio.run(breaker.acall(operation))


@pytest.mark.parametrize(
    "arguments,error,named",
    [
        ({"policy": 5}, TypeError, "policy must be a BreakerPolicy, got 5"),
        ({"name": ""}, ValueError, "name must not be empty, got ''"),
        ({"name": 5}, TypeError, "name must be a string, got 5"),
        ({"name": ["svc"]}, TypeError, "name must be a string, got ['svc']"),
        ({"clock": "x"}, TypeError, "clock must be a Clock, got 'x', which has no monotonic"),
        ({"clock": None}, TypeError, "clock must be a Clock, got None, which has no monotonic"),
        ({"listeners": print}, TypeError, "listeners must be a list of callables"),
        ({"listeners": ["x"]}, TypeError, "listeners must be callable, got 'x'"),
    ],
)
def test_a_bad_breaker_is_refused_with_its_field_and_value(arguments, error, named):
    with pytest.raises(error) as refusal:
        CircuitBreaker(**arguments)
    assert named in str(refusal.value)


def test_without_a_policy_it_has_the_default_one():
    assert CircuitBreaker().policy == BreakerPolicy()
