"""Policies: defaults, arithmetic, and invalid values."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from holdfast.resilience.service import RetryService
from holdfast.testing import VirtualClock


def test_the_defaults_are_those_of_the_contract():
    policy = RetryPolicy()
    assert policy == RetryPolicy(
        max_attempts=3,
        backoff=Exponential(base=1, multiplier=2, cap=60, jitter=0.2),
        attempt_timeout=None,
        deadline=None,
        breaker=None,
        budget=None,
        rate=None,
        idempotent=True,
    )
    breaker = BreakerPolicy()
    assert (breaker.consecutive_failures, breaker.failure_rate) == (5, None)
    assert (breaker.window_calls, breaker.window_seconds) == (20, None)
    assert (breaker.open_for, breaker.trial_calls) == (60, 3)


def test_a_policy_is_a_value_that_cannot_be_changed():
    policy = RetryPolicy(breaker=BreakerPolicy(), rate=RateLimit(per_minute=3))
    assert hash(policy) == hash(RetryPolicy(breaker=BreakerPolicy(), rate=RateLimit(per_minute=3)))
    with pytest.raises(FrozenInstanceError):
        policy.max_attempts = 9  # type: ignore[misc]


def test_the_rate_is_judged_from_a_full_window_of_calls_by_default():
    assert BreakerPolicy(failure_rate=0.5, window_calls=20).judged_from == 20
    assert BreakerPolicy(failure_rate=0.5, window_calls=20, minimum_calls=4).judged_from == 4


def test_a_window_of_time_is_judged_from_ten_calls_by_default():
    assert BreakerPolicy(failure_rate=0.5, window_seconds=60).judged_from == 10
    timed = BreakerPolicy(failure_rate=0.5, window_seconds=60, minimum_calls=500)
    assert timed.judged_from == 500


def test_a_trial_keeps_its_place_for_open_for_by_default():
    assert BreakerPolicy(open_for=7).trial_lifetime == 7
    assert BreakerPolicy(open_for=7, trial_timeout=2).trial_lifetime == 2


def test_the_rate_passes_only_above_its_share_and_with_enough_calls():
    policy = BreakerPolicy(failure_rate=0.5, window_calls=20)
    assert not policy.rate_passed(20, 10)
    assert policy.rate_passed(20, 11)
    assert not policy.rate_passed(19, 19)


def test_a_rate_of_at_least_passes_at_its_share():
    policy = BreakerPolicy(failure_rate=0.5, window_calls=20, rate_rule="at_least")
    assert policy.rate_passed(20, 10)
    assert not policy.rate_passed(20, 9)
    whole = BreakerPolicy(consecutive_failures=None, failure_rate=1, rate_rule="at_least")
    assert whole.rate_passed(20, 20)


def test_without_a_rate_rule_no_rate_passes():
    assert not BreakerPolicy().rate_passed(1000, 1000)


@given(st.integers(1, 1000), st.data())
def test_a_share_that_is_met_exactly_never_passes(calls, data):
    failures = data.draw(st.integers(0, calls - 1))
    policy = BreakerPolicy(failure_rate=failures / calls, minimum_calls=1)
    assert not policy.rate_passed(calls, failures)
    assert policy.rate_passed(calls, failures + 1)


def test_a_share_of_29_percent_is_not_passed_by_29_of_100():
    policy = BreakerPolicy(failure_rate=0.29, window_calls=100)
    assert not policy.rate_passed(100, 29)


BAD_BREAKERS = [
    ({"consecutive_failures": 0}, ValueError, "consecutive_failures must be at least 1, got 0"),
    ({"consecutive_failures": 2.5}, TypeError, "consecutive_failures must be a whole number"),
    ({"failure_rate": 1.01}, ValueError, "failure_rate must be at most 1, got 1.01"),
    ({"failure_rate": -0.5}, ValueError, "failure_rate must be at least 0, got -0.5"),
    ({"failure_rate": "50%"}, TypeError, "failure_rate must be a number, got '50%'"),
    ({"rate_rule": "below"}, ValueError, "rate_rule must be 'above' or 'at_least', got 'below'"),
    (
        {"failure_rate": 0, "rate_rule": "at_least"},
        ValueError,
        'failure_rate must be above 0 where rate_rule is "at_least", got 0',
    ),
    ({"window_calls": 0}, ValueError, "window_calls must be at least 1, got 0"),
    ({"window_seconds": 0}, ValueError, "window_seconds must be at least 0.001, got 0"),
    ({"window_seconds": -1}, ValueError, "window_seconds must be at least 0.001, got -1"),
    (
        {"window_seconds": 5e-324},
        ValueError,
        "window_seconds must be at least 0.001, got 5e-324",
    ),
    (
        {"window_calls": 10**14},
        ValueError,
        "window_calls must be at most 10000000, got 100000000000000",
    ),
    ({"open_for": 1e10}, ValueError, "open_for must be at most 9e+09, got 10000000000.0"),
    ({"minimum_calls": 0}, ValueError, "minimum_calls must be at least 1, got 0"),
    ({"minimum_calls": 21}, ValueError, "minimum_calls must be at most window_calls (20), got 21"),
    ({"open_for": 0}, ValueError, "open_for must be above 0, got 0"),
    ({"open_for": -60}, ValueError, "open_for must be above 0, got -60"),
    ({"trial_calls": 0}, ValueError, "trial_calls must be at least 1, got 0"),
    ({"trial_timeout": 0}, ValueError, "trial_timeout must be above 0, got 0"),
    ({"exclude": ValueError}, TypeError, "exclude must be a tuple, got <class 'ValueError'>"),
    ({"exclude": [ValueError]}, TypeError, "exclude must be a tuple, got [<class 'ValueError'>]"),
    ({"exclude": ("x",)}, TypeError, "exclude must hold exception types, got 'x'"),
    ({"exclude": (int,)}, TypeError, "exclude must hold exception types, got <class 'int'>"),
    (
        {"exclude": (KeyboardInterrupt,)},
        TypeError,
        "exclude must hold exception types, got <class 'KeyboardInterrupt'>",
    ),
    (
        {"consecutive_failures": None},
        ValueError,
        "consecutive_failures and failure_rate are both None: the breaker could never open",
    ),
    (
        {"consecutive_failures": None, "failure_rate": 1},
        ValueError,
        "failure_rate must be below 1 where consecutive_failures is None, got 1",
    ),
]


@pytest.mark.parametrize("arguments,error,named", BAD_BREAKERS)
def test_a_bad_breaker_policy_is_refused_with_its_field_and_value(arguments, error, named):
    with pytest.raises(error) as refusal:
        BreakerPolicy(**arguments)
    assert named in str(refusal.value)


class _Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, error: BaseException) -> None:
        """Leave it to the default."""

    def __repr__(self) -> str:
        return "<unhashable>"


UNHASHABLE = _Unhashable()
BAD_POLICIES = [
    ({"max_attempts": 0}, ValueError, "max_attempts must be at least 1, got 0"),
    ({"max_attempts": -2}, ValueError, "max_attempts must be at least 1, got -2"),
    ({"max_attempts": "3"}, TypeError, "max_attempts must be a whole number, got '3'"),
    ({"max_attempts": True}, TypeError, "max_attempts must be a whole number, got True"),
    ({"backoff": 2.0}, TypeError, "backoff must be an Exponential or a WaitFunction, got 2.0"),
    ({"attempt_timeout": 0}, ValueError, "attempt_timeout must be above 0, got 0"),
    ({"attempt_timeout": -5}, ValueError, "attempt_timeout must be above 0, got -5"),
    ({"deadline": -1}, ValueError, "deadline must be above 0, got -1"),
    ({"deadline": float("inf")}, ValueError, "deadline must be finite, got inf"),
    ({"breaker": 5}, TypeError, "breaker must be a BreakerPolicy, got 5"),
    ({"budget": 0.2}, TypeError, "budget must be a RetryBudget, got 0.2"),
    ({"rate": 100}, TypeError, "rate must be a RateLimit, got 100"),
    ({"idempotent": "no"}, TypeError, "idempotent must be a bool, got 'no'"),
    ({"concurrency": 10}, TypeError, "concurrency must be a ConcurrencyLimit, got 10"),
    ({"categorize": "transient"}, TypeError, "categorize must be callable, got 'transient'"),
    ({"categorize": UNHASHABLE}, TypeError, "categorize must be hashable, got <unhashable>"),
    ({"deadline": 1e10}, ValueError, "deadline must be at most 9e+09, got 10000000000.0"),
    ({"attempt_timeout": 1e10}, ValueError, "attempt_timeout must be at most 9e+09, got 1000000"),
]


LARGEST = [
    (BreakerPolicy, {"failure_rate": 0.5, "window_calls": 10**7, "open_for": 9e9}),
    (BreakerPolicy, {"failure_rate": 0.5, "window_seconds": 0.001}),
    (RetryBudget, {"window": 0.001}),
    (RateLimit, {"per_minute": 10**7, "per_day": 10**7}),
    (ConcurrencyLimit, {"limit": 10**9, "max_wait": 9e9}),
    (Exponential, {"base": 9e9, "cap": 9e9}),
]


@pytest.mark.parametrize("kind,arguments", LARGEST)
def test_the_largest_and_the_smallest_that_are_allowed_work(kind, arguments):
    value = kind(**arguments)
    fields = {
        BreakerPolicy: "breaker",
        RetryBudget: "budget",
        RateLimit: "rate",
        ConcurrencyLimit: "concurrency",
        Exponential: "backoff",
    }
    service = RetryService(clock=VirtualClock(start=1e9))
    policy = RetryPolicy(max_attempts=2, **{fields[kind]: value})
    outcomes = iter([ConnectionRefusedError("down"), None])

    def operation():
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return "value"

    assert service.execute_sync(operation, policy, "svc").value == "value"


@pytest.mark.parametrize("arguments,error,named", BAD_POLICIES)
def test_a_bad_retry_policy_is_refused_with_its_field_and_value(arguments, error, named):
    with pytest.raises(error) as refusal:
        RetryPolicy(**arguments)
    assert str(refusal.value).startswith(named)


BAD_LIMITS = [
    (RateLimit, {}, ValueError, "per_second, per_minute and per_day are all None"),
    (RateLimit, {"per_second": 0}, ValueError, "per_second"),
    (RateLimit, {"per_second": 1, "spread": "yes"}, TypeError, "spread"),
    (RateLimit, {"per_minute": 0}, ValueError, "per_minute must be at least 1, got 0"),
    (RateLimit, {"per_day": -1}, ValueError, "per_day must be at least 1, got -1"),
    (RateLimit, {"per_day": 1.5}, TypeError, "per_day must be a whole number, got 1.5"),
    (RetryBudget, {"share": 1.1}, ValueError, "share must be at most 1, got 1.1"),
    (RetryBudget, {"share": -0.1}, ValueError, "share must be at least 0, got -0.1"),
    (RetryBudget, {"floor": -1}, ValueError, "floor must be at least 0, got -1"),
    (RetryBudget, {"window": 0}, ValueError, "window must be at least 0.001, got 0"),
    (RetryBudget, {"window": 1e-320}, ValueError, "window must be at least 0.001, got 1e-320"),
    (RateLimit, {"per_minute": 10**30}, ValueError, "per_minute must be at most 10000000, got 10"),
    (RateLimit, {"per_day": 10**30}, ValueError, "per_day must be at most 10000000, got 1000"),
    (
        ConcurrencyLimit,
        {"limit": 1, "max_wait": 1e10},
        ValueError,
        "max_wait must be at most 9e+09, got 10000000000.0",
    ),
    (ConcurrencyLimit, {"limit": 0}, ValueError, "limit must be at least 1, got 0"),
    (ConcurrencyLimit, {"limit": "2"}, TypeError, "limit must be a whole number, got '2'"),
    (
        ConcurrencyLimit,
        {"limit": 1, "max_wait": -1},
        ValueError,
        "max_wait must be at least 0, got -1",
    ),
]


@pytest.mark.parametrize("kind,arguments,error,named", BAD_LIMITS)
def test_a_bad_limit_is_refused_with_its_field_and_value(kind, arguments, error, named):
    with pytest.raises(error) as refusal:
        kind(**arguments)
    assert named in str(refusal.value)
