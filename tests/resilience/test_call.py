"""The decisions of one call, without I/O: the test drives the steps."""

import httpx
import pytest

from holdfast.errors import (
    AttemptTimeout,
    Category,
    CircuitOpenError,
    ConcurrencyLimitError,
    DeadlineExceeded,
    Permanent,
    RateLimitedError,
    RetryLater,
    UnwantedResult,
)
from holdfast.events import AttemptFailed, CallFinished, Event
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.call import AttemptResult, AttemptStep, Call, GateTurn, Pause
from holdfast.resilience.guard import Guard, Operation
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from holdfast.resilience.result import RetryResult, StopReason
from holdfast.testing import VirtualClock, seeded_rng

STEADY = Exponential(base=1, multiplier=2, cap=60, jitter=0)
DOWN = ConnectionRefusedError("down")


def _status(code: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://downstream")
    response = httpx.Response(code, request=request)
    return httpx.HTTPStatusError(str(code), request=request, response=response)


class _Holder:
    """Another caller that has a turn."""


class _Hand:
    """Drives the steps of one call and records them."""

    def __init__(self, listeners=(), clock=None, operation=None, deadline_at=None, **policy):
        self.clock = clock or VirtualClock(start=100.0)
        self.operation = operation or Operation("svc", self.clock, tuple(listeners))
        bound = RetryPolicy(**{"backoff": STEADY, **policy})
        self.operation.adopt(bound)
        self.guard = Guard(self.operation, bound, rng=seeded_rng(), nested="collapse")
        if deadline_at is None and bound.deadline is not None:
            deadline_at = self.clock.monotonic() + bound.deadline
        self.call: Call[object] = Call(
            self.guard, self.clock.monotonic(), self.guard.policy.max_attempts, deadline_at
        )
        self.steps = self.call.steps()
        self.result: RetryResult[object] | None = None

    def next(self, reply=None):
        try:
            return self.steps.send(reply)
        except StopIteration as end:
            self.result = end.value
            return end.value

    def fail(self, error: Exception = DOWN):
        return self.next(AttemptResult(error=error))

    def cut(self, seconds: float):
        self.clock.advance(seconds)
        return self.next(AttemptResult(cut=True))


def test_a_success_ends_the_call():
    hand = _Hand()
    assert hand.next() == AttemptStep(None)
    hand.clock.advance(0.25)
    result = hand.next(AttemptResult("value"))
    assert (result.value, result.attempts, result.total_time) == ("value", 1, 0.25)
    assert result.stop_reason is StopReason.SUCCESS


def test_transient_errors_are_retried_with_doubling_delays_up_to_the_attempts():
    hand = _Hand(max_attempts=4)
    hand.next()
    for delay in (1.0, 2.0, 4.0):
        assert hand.fail() == Pause(delay)
        assert hand.next() == AttemptStep(None)
    result = hand.fail()
    assert (result.stop_reason, result.attempts, result.error) == (StopReason.ATTEMPTS, 4, DOWN)
    assert [record.delay for record in result.history] == [1, 2, 4, 0]
    assert [record.number for record in result.history] == [1, 2, 3, 4]
    assert {record.category for record in result.history} == {Category.TRANSIENT}


def test_the_duration_of_each_failed_attempt_is_its_own():
    hand = _Hand()
    hand.next()
    hand.clock.advance(0.5)
    hand.fail()
    hand.clock.advance(1)
    hand.next()
    hand.clock.advance(0.25)
    hand.fail()
    hand.clock.advance(2)
    hand.next()
    result = hand.next(AttemptResult("late"))
    assert [record.duration for record in result.history] == [0.5, 0.25]
    assert result.total_time == 3.75


def test_a_permanent_error_ends_the_call_at_once():
    hand = _Hand()
    hand.next()
    error = Permanent("PARSE_ERROR")
    result = hand.fail(error)
    assert (result.stop_reason, result.attempts) == (StopReason.PERMANENT, 1)
    assert result.error is error
    assert result.history[0].category is Category.PERMANENT


def test_an_unknown_error_is_transient():
    hand = _Hand()
    hand.next()
    assert hand.fail(Exception("who knows")) == Pause(1)


def test_a_first_attempt_made_outside_counts_as_the_first():
    hand = _Hand()
    steps = hand.call.steps_after(DOWN, hand.guard.breaker.permit)
    assert next(steps) == Pause(1)
    assert steps.send(None) == AttemptStep(None)
    assert steps.send(AttemptResult(error=DOWN)) == Pause(2)


# -- the caller's own categories ---------------------------------------------------------------


def test_the_policys_own_categorize_decides_first():
    hand = _Hand(categorize=lambda error: Category.PERMANENT)
    hand.next()
    assert hand.fail(DOWN).stop_reason is StopReason.PERMANENT
    hand = _Hand(categorize=lambda error: Category.TRANSIENT, breaker=BreakerPolicy())
    hand.next()
    assert hand.fail(TypeError("a flaky driver's")) == Pause(1)
    assert hand.guard.breaker.snapshot().failure_count == 1, "called transient, it counts"


@pytest.mark.parametrize(
    "error",
    [
        _status(400),
        _status(404),
        _status(409),
        _status(499),
        Permanent("PARSE_ERROR"),
        CircuitOpenError("inner", None),
        RateLimitedError("inner", None),
        ConcurrencyLimitError("inner", 1),
    ],
    ids=repr,
)
def test_a_4xx_or_a_refusal_of_our_own_never_counts_even_if_it_is_called_transient(error):
    hand = _Hand(categorize=lambda error: Category.TRANSIENT, breaker=BreakerPolicy())
    hand.next()
    assert hand.fail(error) == Pause(1)
    assert hand.guard.breaker.snapshot().failure_count == 0


@pytest.mark.parametrize("error", [_status(500), _status(503), AttemptTimeout("inner", 1), DOWN])
def test_a_transient_failure_of_the_downstream_counts(error):
    hand = _Hand(categorize=lambda error: Category.TRANSIENT, breaker=BreakerPolicy())
    hand.next()
    assert hand.fail(error) == Pause(1)
    assert hand.guard.breaker.snapshot().failure_count == 1


def test_an_error_called_permanent_does_not_count_for_the_breaker():
    hand = _Hand(categorize=lambda error: Category.PERMANENT, breaker=BreakerPolicy())
    hand.next()
    hand.fail(DOWN)
    assert hand.guard.breaker.snapshot().failure_count == 0


def test_the_policys_own_categorize_may_leave_it_to_the_default():
    hand = _Hand(categorize=lambda error: None)
    hand.next()
    assert hand.fail(Permanent("PARSE_ERROR")).stop_reason is StopReason.PERMANENT


def test_a_result_that_is_not_wanted_is_tried_again_and_counts_as_neither():
    hand = _Hand(retry_result=lambda value: value is None, breaker=BreakerPolicy())
    hand.next()
    assert hand.next(AttemptResult(None)) == Pause(1)
    assert hand.next() == AttemptStep(None)
    result = hand.next(AttemptResult("here"))
    assert (result.value, result.attempts, result.ok) == ("here", 2, True)
    assert isinstance(result.history[0].error, UnwantedResult)
    assert hand.guard.breaker.snapshot().failure_count == 0


def test_the_last_result_that_is_not_wanted_is_in_the_error():
    hand = _Hand(retry_result=lambda value: value < 3, max_attempts=1)
    hand.next()
    result = hand.next(AttemptResult(2))
    assert (result.stop_reason, result.error.value) == (StopReason.ATTEMPTS, 2)


def test_an_error_in_retry_result_fails_the_attempt():
    hand = _Hand(retry_result=lambda value: value.ready)
    hand.next()
    result = hand.next(AttemptResult("text"))
    assert (type(result.error), result.stop_reason) == (AttributeError, StopReason.PERMANENT)


def test_an_answer_that_is_not_a_category_is_refused():
    hand = _Hand(categorize=lambda error: "transient", concurrency=ConcurrencyLimit(1))
    hand.next()
    with pytest.raises(TypeError, match="what categorize returns must be a Category, got 'tran"):
        hand.fail()
    assert hand.guard.gate is not None
    assert hand.guard.gate.running == 0


def _broken(error: BaseException) -> Category | None:
    raise LookupError("a mistake in the caller's own function")


@pytest.mark.parametrize("trial", [False, True])
def test_where_categorize_raises_that_is_logged_and_the_default_holds(trial, caplog):
    hand = _Hand(categorize=_broken, breaker=TRIPPING, concurrency=ConcurrencyLimit(1))
    if trial:
        _open(hand.operation)
        hand.clock.advance(30)
    hand.next()
    result = hand.fail()
    assert (result.error, result.stop_reason) == (DOWN, StopReason.BREAKER), "it counted"
    assert result.error.__context__ is None
    assert hand.guard.gate is not None
    assert hand.guard.gate.running == 0
    assert hand.operation.breaker.refuses()
    assert "svc: categorize failed on ConnectionRefusedError('down')" in caplog.text
    assert "a mistake in the caller's own function" in caplog.text


def test_where_categorize_raises_a_permanent_error_stays_permanent(caplog):
    hand = _Hand(categorize=_broken)
    hand.next()
    assert hand.fail(Permanent("PARSE_ERROR")).stop_reason is StopReason.PERMANENT


def test_an_interruption_in_categorize_passes_through_and_leaves_nothing_behind():
    def interrupted(error: BaseException) -> Category | None:
        raise KeyboardInterrupt

    hand = _Hand(categorize=interrupted, concurrency=ConcurrencyLimit(1))
    hand.next()
    with pytest.raises(KeyboardInterrupt):
        hand.fail()
    assert hand.guard.gate is not None
    assert hand.guard.gate.running == 0


# -- Retry-After -------------------------------------------------------------------------------


def test_a_longer_wait_that_was_asked_for_replaces_the_delay():
    hand = _Hand()
    hand.next()
    assert hand.fail(RetryLater(7)) == Pause(7)


def test_a_shorter_wait_that_was_asked_for_does_not():
    hand = _Hand(backoff=Exponential(base=10, jitter=0))
    hand.next()
    assert hand.fail(RetryLater(7)) == Pause(10)


def test_a_wait_of_exactly_the_cap_is_still_waited():
    hand = _Hand()
    hand.next()
    assert hand.fail(RetryLater(60)) == Pause(60)


def test_a_wait_above_the_cap_ends_the_call_with_the_retry_time():
    hand = _Hand()
    hand.next()
    error = RetryLater(60.5)
    result = hand.fail(error)
    assert result.stop_reason is StopReason.RATE_LIMIT
    assert result.error is error
    assert result.retry_at == hand.clock.wall() + 60.5


def test_a_wait_beyond_the_deadline_ends_the_call_with_the_retry_time():
    hand = _Hand(deadline=5)
    hand.next()
    hand.clock.advance(1)
    result = hand.fail(RetryLater(4))
    assert result.stop_reason is StopReason.DEADLINE
    assert result.retry_at == hand.clock.wall() + 4


def test_after_the_last_attempt_the_result_has_the_wait_that_was_asked_for():
    hand = _Hand(max_attempts=1)
    hand.next()
    result = hand.fail(RetryLater(7))
    assert result.stop_reason is StopReason.ATTEMPTS
    assert result.retry_at == hand.clock.wall() + 7


# -- time limits -------------------------------------------------------------------------------


def test_each_attempt_is_cut_by_the_attempt_timeout():
    hand = _Hand(attempt_timeout=3)
    assert hand.next() == AttemptStep(3)
    assert hand.cut(3) == Pause(1)
    assert hand.next() == AttemptStep(3)
    result = hand.next(AttemptResult("value"))
    error = result.history[0].error
    assert isinstance(error, AttemptTimeout)
    assert (error.name, error.seconds) == ("svc", 3)


def test_an_attempt_is_given_no_more_than_the_deadline_leaves():
    hand = _Hand(attempt_timeout=3, deadline=4.5)
    assert hand.next() == AttemptStep(3)
    assert hand.cut(3) == Pause(1)
    hand.clock.advance(1)
    assert hand.next() == AttemptStep(0.5)
    result = hand.cut(0.5)
    assert result.stop_reason is StopReason.DEADLINE
    assert isinstance(result.error, DeadlineExceeded)
    assert result.error.seconds == 4.5
    assert result.retry_at is None


def test_the_deadline_cuts_the_only_attempt():
    hand = _Hand(max_attempts=1, deadline=2)
    assert hand.next() == AttemptStep(2)
    result = hand.cut(2)
    assert (result.stop_reason, result.attempts) == (StopReason.DEADLINE, 1)
    assert isinstance(result.error, DeadlineExceeded)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("max_attempts", [1, 3])
def test_a_timer_that_rings_a_hair_early_is_still_the_deadlines(idempotent, max_attempts):
    hand = _Hand(deadline=2, idempotent=idempotent, max_attempts=max_attempts)
    hand.next()
    result = hand.cut(2 - 1e-9)
    assert result.stop_reason is StopReason.DEADLINE
    assert isinstance(result.error, DeadlineExceeded)


def test_where_both_limits_fall_together_it_is_the_deadline():
    hand = _Hand(deadline=2, attempt_timeout=2)
    hand.next()
    assert isinstance(hand.cut(2).error, DeadlineExceeded)


def test_a_delay_that_would_reach_the_deadline_is_not_waited():
    hand = _Hand(deadline=1)
    hand.next()
    result = hand.fail()
    assert (result.stop_reason, result.error) == (StopReason.DEADLINE, DOWN)
    assert result.retry_at == hand.clock.wall() + 1


def test_an_inner_deadline_alone_does_not_end_the_outer_call():
    hand = _Hand(deadline=10)
    hand.next()
    assert hand.fail(DeadlineExceeded("inner", 1)) == Pause(1)


def test_an_inner_call_that_hit_the_shared_deadline_ends_the_outer_call():
    hand = _Hand(deadline=10)
    hand.next()
    hand.clock.advance(10)
    result = hand.fail(DeadlineExceeded("inner", 10))
    assert (result.stop_reason, result.retry_at) == (StopReason.DEADLINE, None)


def test_a_call_whose_inherited_deadline_has_passed_makes_no_attempt():
    hand = _Hand(deadline_at=100.0, rate=RateLimit(per_minute=1))
    result = hand.next()
    assert (result.stop_reason, result.attempts) == (StopReason.DEADLINE, 0)
    assert isinstance(result.error, DeadlineExceeded)
    assert result.error.seconds == 0


def test_a_sleep_that_took_too_long_ends_the_call_with_the_downstreams_error():
    hand = _Hand(deadline=10)
    hand.next()
    hand.fail()
    hand.clock.advance(11)
    result = hand.next()
    assert (result.stop_reason, result.error, result.attempts) == (StopReason.DEADLINE, DOWN, 1)


# -- idempotency -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [TimeoutError("read"), ConnectionResetError("broken"), AttemptTimeout("inner", 1)]
)
def test_an_unclear_outcome_is_not_repeated_where_that_is_not_safe(error):
    hand = _Hand(idempotent=False)
    hand.next()
    result = hand.fail(error)
    assert (result.stop_reason, result.error) == (StopReason.AMBIGUOUS, error)
    hand = _Hand(idempotent=True)
    hand.next()
    assert hand.fail(error) == Pause(1)


def test_a_cut_attempt_is_not_repeated_where_that_is_not_safe():
    hand = _Hand(idempotent=False, attempt_timeout=1)
    hand.next()
    assert hand.cut(1).stop_reason is StopReason.AMBIGUOUS


def test_a_clear_refusal_is_repeated_even_where_repeating_is_not_safe():
    hand = _Hand(idempotent=False)
    hand.next()
    assert hand.fail(ConnectionRefusedError()) == Pause(1)


# -- the breaker -------------------------------------------------------------------------------


def _open(operation: Operation) -> None:
    operation.breaker.record_failure(operation.breaker.permit)
    assert operation.breaker.state is CircuitState.OPEN


TRIPPING = BreakerPolicy(consecutive_failures=1, open_for=30, trial_calls=1)


def test_an_open_breaker_refuses_before_any_attempt():
    hand = _Hand(breaker=TRIPPING)
    _open(hand.operation)
    result = hand.next()
    assert (result.stop_reason, result.attempts) == (StopReason.BREAKER, 0)
    assert isinstance(result.error, CircuitOpenError)
    assert result.breaker_triggered
    assert result.retry_at == hand.clock.wall() + 30


def test_the_failure_that_opens_the_breaker_ends_the_call_without_a_wait():
    hand = _Hand(breaker=TRIPPING)
    hand.next()
    result = hand.fail()
    assert (result.stop_reason, result.error, result.attempts) == (StopReason.BREAKER, DOWN, 1)
    assert result.retry_at == hand.clock.wall() + 30


def test_a_retry_that_comes_after_the_open_time_is_the_trial():
    hand = _Hand(breaker=TRIPPING, backoff=Exponential(base=30, jitter=0))
    hand.next()
    assert hand.fail() == Pause(30)
    hand.clock.advance(30)
    assert hand.next() == AttemptStep(None)
    hand.next(AttemptResult("back"))
    assert hand.operation.breaker.state is CircuitState.CLOSED


def test_a_breaker_that_opened_during_the_wait_ends_the_call_with_the_downstreams_error():
    hand = _Hand(breaker=BreakerPolicy(consecutive_failures=2, open_for=30))
    hand.next()
    assert hand.fail() == Pause(1)
    _open(hand.operation)
    result = hand.next()
    assert (result.stop_reason, result.error, result.attempts) == (StopReason.BREAKER, DOWN, 1)


def test_a_breaker_that_opened_while_a_turn_was_waited_for_refuses_and_the_turn_is_left():
    hand = _Hand(breaker=TRIPPING, rate=RateLimit(per_minute=1), concurrency=ConcurrencyLimit(1))
    gate, rate = hand.guard.gate, hand.guard.rate
    assert gate is not None
    assert rate is not None
    other = _Holder()
    assert gate.try_enter(other)
    assert isinstance(hand.next(), GateTurn)
    _open(hand.operation)
    gate.leave(other)
    assert gate.try_enter(hand.call)
    result = hand.next(True)
    assert (result.stop_reason, result.attempts) == (StopReason.BREAKER, 0)
    assert gate.running == 0
    assert rate.reserve(hand.clock.monotonic(), 0.0) == 0, "its place in the rate came back"
    assert hand.operation.breaker.snapshot().refused == 1


@pytest.mark.parametrize("half_open", [False, True])
def test_a_call_that_the_breaker_refuses_uses_up_no_rate_and_waits_for_no_turn(half_open):
    hand = _Hand(breaker=TRIPPING, rate=RateLimit(per_minute=1), concurrency=ConcurrencyLimit(1))
    _open(hand.operation)
    if half_open:
        hand.clock.advance(30)
        assert hand.operation.breaker.try_acquire() is not None
    gate, rate = hand.guard.gate, hand.guard.rate
    assert gate is not None
    assert rate is not None
    other = _Holder()
    assert gate.try_enter(other)
    assert hand.next().stop_reason is StopReason.BREAKER
    assert rate.reserve(hand.clock.monotonic(), 0.0) == 0


def test_a_cancelled_trial_releases_its_place():
    hand = _Hand(breaker=TRIPPING)
    _open(hand.operation)
    hand.clock.advance(30)
    assert hand.next() == AttemptStep(None)
    assert hand.operation.breaker.refuses()
    hand.steps.close()
    assert not hand.operation.breaker.refuses()


# -- the rate ----------------------------------------------------------------------------------


def test_every_attempt_is_charged_to_the_rate():
    hand = _Hand(rate=RateLimit(per_minute=2), max_attempts=5)
    hand.next()
    hand.fail()
    hand.clock.advance(1)
    assert hand.next() == AttemptStep(None)
    hand.fail()
    hand.clock.advance(2)
    assert hand.next() == Pause(57)


def test_a_wait_for_the_rate_above_the_cap_ends_the_call_with_the_retry_time():
    hand = _Hand(rate=RateLimit(per_minute=1), backoff=Exponential(base=1, cap=8, jitter=0))
    hand.next()
    hand.fail()
    hand.clock.advance(1)
    result = hand.next()
    assert (result.stop_reason, result.error) == (StopReason.RATE_LIMIT, DOWN)
    assert result.retry_at == hand.clock.wall() + 59


def test_a_first_attempt_refused_by_the_rate_is_a_rate_limited_error():
    first = _Hand(rate=RateLimit(per_minute=1), backoff=Exponential(cap=8))
    first.next()
    second = _Hand(
        rate=RateLimit(per_minute=1),
        backoff=Exponential(cap=8),
        clock=first.clock,
        operation=first.operation,
    )
    result = second.next()
    assert (result.stop_reason, result.attempts) == (StopReason.RATE_LIMIT, 0)
    assert isinstance(result.error, RateLimitedError)
    assert result.error.retry_at == result.retry_at == first.clock.wall() + 60


@pytest.mark.parametrize("deadline", [60, 59.5, 10])
def test_a_wait_for_the_rate_that_the_deadline_does_not_leave_is_refused_at_once(deadline):
    first = _Hand(rate=RateLimit(per_minute=1))
    first.next()
    second = _Hand(
        rate=RateLimit(per_minute=1),
        deadline=deadline,
        clock=first.clock,
        operation=first.operation,
    )
    result = second.next()
    assert (result.stop_reason, result.attempts) == (StopReason.DEADLINE, 0)
    assert result.retry_at == first.clock.wall() + 60
    assert first.guard.rate is not None
    assert first.guard.rate.reserve(first.clock.monotonic(), 60.0) == 60, "no place was kept"


def test_a_call_cancelled_while_waiting_for_the_rate_releases_its_place():
    first = _Hand(rate=RateLimit(per_minute=1))
    first.next()
    second = _Hand(rate=RateLimit(per_minute=1), clock=first.clock, operation=first.operation)
    assert second.next() == Pause(60)
    second.steps.close()
    third = _Hand(rate=RateLimit(per_minute=1), clock=first.clock, operation=first.operation)
    assert third.next() == Pause(60)


def test_a_start_that_waited_for_its_turn_is_charged_when_it_starts():
    shared = {"rate": RateLimit(per_minute=1), "concurrency": ConcurrencyLimit(1)}
    first = _Hand(**shared)
    first.next()
    second = _Hand(clock=first.clock, operation=first.operation, **shared)
    assert isinstance(second.next(), GateTurn)
    first.clock.advance(100)
    first.next(AttemptResult("done"))
    assert second.guard.gate is not None
    assert second.guard.gate.try_enter(second.call)
    assert second.next(True) == AttemptStep(None)
    third = _Hand(clock=first.clock, operation=first.operation, **shared)
    second.next(AttemptResult("done"))
    assert third.next() == Pause(60)


# -- turns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "max_wait,deadline,seconds", [(None, None, None), (5, None, 5), (None, 3, 3), (5, 3, 3)]
)
def test_a_turn_is_waited_for_as_long_as_both_limits_allow(max_wait, deadline, seconds):
    hand = _Hand(concurrency=ConcurrencyLimit(1, max_wait), deadline=deadline)
    gate = hand.guard.gate
    assert gate is not None
    other = _Holder()
    gate.try_enter(other)
    assert hand.next() == GateTurn(gate, hand.call, seconds)


def test_a_turn_that_does_not_come_ends_the_call():
    hand = _Hand(concurrency=ConcurrencyLimit(1, 5))
    assert hand.guard.gate is not None
    other = _Holder()
    hand.guard.gate.try_enter(other)
    hand.next()
    result = hand.next(False)
    assert (result.stop_reason, result.attempts) == (StopReason.CONCURRENCY, 0)
    assert isinstance(result.error, ConcurrencyLimitError)
    assert result.error.limit == 1
    assert hand.guard.gate.running == 1, "only the one who was there"


def test_a_turn_that_does_not_come_before_the_deadline_is_the_deadlines_fault():
    hand = _Hand(concurrency=ConcurrencyLimit(1), deadline=3)
    assert hand.guard.gate is not None
    other = _Holder()
    hand.guard.gate.try_enter(other)
    hand.next()
    hand.clock.advance(3)
    result = hand.next(False)
    assert result.stop_reason is StopReason.DEADLINE
    assert isinstance(result.error, DeadlineExceeded)


def test_the_turn_is_left_during_the_delay_between_attempts():
    hand = _Hand(concurrency=ConcurrencyLimit(1))
    gate = hand.guard.gate
    assert gate is not None
    hand.next()
    assert gate.running == 1
    assert isinstance(hand.fail(), Pause)
    assert gate.running == 0
    hand.next()
    assert gate.running == 1
    hand.next(AttemptResult("value"))
    assert gate.running == 0


def test_a_turn_is_left_when_the_steps_are_closed():
    hand = _Hand(concurrency=ConcurrencyLimit(1))
    hand.next()
    hand.steps.close()
    assert hand.guard.gate is not None
    assert hand.guard.gate.running == 0


# -- inside an attempt of its own name ---------------------------------------------------------


def _inside(hand: _Hand, **policy) -> Call[object]:
    """Return a call of the same name that runs inside the attempt of `hand`."""
    bound = RetryPolicy(backoff=STEADY, **policy)
    hand.operation.adopt(bound)
    guard = Guard(hand.operation, bound, rng=seeded_rng(), nested="allow")
    return Call(guard, hand.clock.monotonic(), bound.max_attempts, within_own=True)


def test_a_call_inside_its_own_name_shares_the_turn_and_does_not_end_it():
    hand = _Hand(concurrency=ConcurrencyLimit(1))
    assert hand.next() == AttemptStep(None)
    gate = hand.guard.gate
    assert gate is not None
    steps = _inside(hand).steps()
    assert next(steps) == AttemptStep(None)
    with pytest.raises(StopIteration):
        steps.send(AttemptResult("inner"))
    assert gate.running == 1, "the outer call still has its turn"
    hand.next(AttemptResult("outer"))
    assert gate.running == 0


@pytest.mark.parametrize("inner", [AttemptResult("value"), AttemptResult(error=DOWN)])
def test_a_call_inside_a_trial_of_its_own_name_is_permitted_and_does_not_count(inner):
    hand = _Hand(breaker=TRIPPING)
    _open(hand.operation)
    hand.clock.advance(30)
    assert hand.next() == AttemptStep(None)
    steps = _inside(hand, max_attempts=1).steps()
    assert next(steps) == AttemptStep(None)
    with pytest.raises(StopIteration):
        steps.send(inner)
    assert hand.operation.breaker.state is CircuitState.HALF_OPEN
    assert hand.operation.breaker.refuses(), "the one trial is still under way"
    hand.next(AttemptResult("back"))
    assert hand.operation.breaker.state is CircuitState.CLOSED


def test_a_call_inside_its_own_name_is_charged_to_the_rate_like_any_other():
    hand = _Hand(rate=RateLimit(per_minute=1))
    assert hand.next() == AttemptStep(None)
    assert next(_inside(hand).steps()) == Pause(60)


# -- the budget --------------------------------------------------------------------------------


def test_an_exhausted_budget_ends_the_call_with_the_retry_time():
    hand = _Hand(budget=RetryBudget(share=0, floor=1), max_attempts=5)
    hand.next()
    assert hand.fail() == Pause(1)
    hand.next()
    result = hand.fail()
    assert (result.stop_reason, result.error) == (StopReason.BUDGET, DOWN)
    assert result.retry_at == hand.clock.wall() + 2


def test_calls_earn_the_share_that_retries_spend():
    budget = RetryBudget(share=0.5, floor=0)
    first = _Hand(budget=budget)
    first.next()
    assert first.fail().stop_reason is StopReason.BUDGET
    second = _Hand(budget=budget, clock=first.clock, operation=first.operation)
    second.next()
    assert second.fail() == Pause(1)


# -- events ------------------------------------------------------------------------------------


def test_listeners_get_failed_attempts_and_the_end_in_order():
    told: list[Event] = []
    hand = _Hand(listeners=[told.append], max_attempts=2)
    hand.next()
    hand.clock.advance(0.5)
    hand.fail()
    hand.next()
    hand.fail()
    assert told == [
        AttemptFailed("svc", 1, DOWN, Category.TRANSIENT, 0.5, 1.0),
        AttemptFailed("svc", 2, DOWN, Category.TRANSIENT, 0.0, None),
        CallFinished("svc", False, 2, 0.5, "ATTEMPTS"),
    ]


@pytest.mark.parametrize(
    "ends_with", [AttemptResult("value"), AttemptResult(error=Permanent("PARSE_ERROR"))]
)
def test_the_turn_is_free_before_a_listener_gets_the_end(ends_with):
    running: list[int] = []
    hand = _Hand(
        listeners=[lambda event: running.append(hand.guard.gate.running)],  # type: ignore[union-attr]
        concurrency=ConcurrencyLimit(1),
    )
    hand.next()
    hand.next(ends_with)
    assert set(running) == {0}
