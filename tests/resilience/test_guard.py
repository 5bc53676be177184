"""What calls of one name share."""

import pytest

from holdfast.resilience.guard import Guard, Operation
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from holdfast.testing import VirtualClock, seeded_rng

FULL = RetryPolicy(
    breaker=BreakerPolicy(),
    budget=RetryBudget(),
    rate=RateLimit(per_minute=5),
    concurrency=ConcurrencyLimit(3),
)


CLOCK = VirtualClock()


def _operation(name: str = "orders", listeners=(), clock=CLOCK) -> Operation:
    return Operation(name, clock, tuple(listeners))


def _guard(operation: Operation, nested="collapse", **policy) -> Guard:
    bound = RetryPolicy(**policy)
    operation.adopt(bound)
    return Guard(operation, bound, rng=seeded_rng(), nested=nested)


def test_policies_of_one_name_share_breaker_limits_and_counts():
    operation = _operation()
    operation.adopt(FULL)
    first = Guard(operation, FULL, rng=seeded_rng(), nested="collapse")
    second = _guard(operation, max_attempts=9)
    assert second.breaker is first.breaker
    assert second.stats is first.stats
    assert second.budget is first.budget is not None
    assert second.rate is first.rate is not None
    assert second.gate is first.gate is not None
    assert not second.plain, "it must ask for a turn, though its policy does not speak of one"


@pytest.mark.parametrize(
    "field,other",
    [
        ("breaker", BreakerPolicy(open_for=1)),
        ("budget", RetryBudget(floor=1)),
        ("rate", RateLimit(per_minute=6)),
        ("concurrency", ConcurrencyLimit(4)),
    ],
)
def test_a_different_limit_of_the_same_kind_under_one_name_is_refused(field, other):
    operation = _operation()
    operation.adopt(FULL)
    with pytest.raises(ValueError, match=f"^{field} of 'orders' is already ") as refusal:
        operation.adopt(RetryPolicy(**{field: other}))
    assert repr(other) in str(refusal.value)


def test_a_policy_that_is_refused_leaves_nothing_behind():
    operation = _operation()
    operation.adopt(RetryPolicy(concurrency=ConcurrencyLimit(1)))
    with pytest.raises(ValueError, match="concurrency"):
        operation.adopt(FULL)
    assert (operation.budget, operation.rate) == (None, None)
    operation.adopt(RetryPolicy(breaker=BreakerPolicy(consecutive_failures=2)))


def test_a_name_without_a_breaker_policy_never_opens_by_itself_but_can_be_held():
    operation = _operation()
    for _ in range(1000):
        operation.breaker.record_failure(operation.breaker.permit)
    assert not operation.breaker.refuses()
    operation.breaker.hold()
    assert operation.breaker.refuses()


def test_a_hold_outlives_the_arrival_of_a_breaker_policy():
    operation = _operation()
    breaker = operation.breaker
    breaker.hold()
    operation.adopt(FULL)
    assert operation.breaker is breaker
    assert breaker.refuses()


def test_another_policy_with_the_same_breaker_goes_on_counting():
    operation = _operation()
    operation.adopt(FULL)
    operation.breaker.record_failure(operation.breaker.permit)
    operation.adopt(RetryPolicy(max_attempts=9, breaker=BreakerPolicy()))
    assert operation.breaker.snapshot().failure_count == 1


@pytest.mark.parametrize(
    "policy",
    [
        {"attempt_timeout": 1},
        {"deadline": 1},
        {"budget": RetryBudget()},
        {"rate": RateLimit(per_minute=1)},
        {"concurrency": ConcurrencyLimit(1)},
    ],
)
def test_a_guard_is_plain_only_where_a_first_attempt_needs_nothing_beforehand(policy):
    assert _guard(_operation(), breaker=BreakerPolicy()).plain
    assert not _guard(_operation(), **policy).plain
    assert not _guard(_operation(listeners=[print])).plain


def test_adopting_returns_whether_a_limit_is_new():
    operation = _operation()
    assert not operation.adopt(RetryPolicy(breaker=BreakerPolicy()))
    assert operation.adopt(FULL)
    assert not operation.adopt(FULL)
    for limit in (
        {"budget": RetryBudget()},
        {"rate": RateLimit(per_day=1)},
        {"concurrency": ConcurrencyLimit(1)},
    ):
        assert _operation().adopt(RetryPolicy(**limit))
