"""What calls of one name share, and what a call inside another may do."""

import threading

import pytest

from holdfast.events import NestedGuardFound
from holdfast.resilience.guard import (
    ACTIVE,
    Frame,
    Guard,
    LimitedFrame,
    Operation,
    outside_calls,
)
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


def _plain_frame(guard: Guard) -> Frame:
    frame = Frame()
    frame.guard = guard
    return frame


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
def test_a_different_limit_of_the_same_sort_under_one_name_is_refused(field, other):
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


def test_inside_a_call_that_retries_an_inner_call_has_one_attempt():
    outer = _plain_frame(_guard(_operation("outer")))
    inner = _guard(_operation("inner"), max_attempts=5)
    assert inner.attempts_inside(None) == 5
    assert inner.attempts_inside(outer) == 1


def test_inside_a_call_that_has_ended_or_does_not_retry_all_attempts_are_allowed():
    inner = _guard(_operation("inner"), max_attempts=5)
    once = _plain_frame(_guard(_operation("once"), max_attempts=1))
    assert inner.attempts_inside(once) == 5
    ended = _plain_frame(_guard(_operation("outer")))
    ended.guard = None
    assert inner.attempts_inside(ended) == 5


def test_a_call_around_the_one_around_is_seen_too():
    outer = _plain_frame(_guard(_operation("outer")))
    collapsed = LimitedFrame(_guard(_operation("middle")), 0.0, outer)
    once = LimitedFrame(_guard(_operation("once"), max_attempts=1), 0.0, outer)
    inner = _guard(_operation("inner"))
    assert collapsed.attempts == 1
    assert inner.attempts_inside(collapsed) == 1
    assert inner.attempts_inside(once) == 1
    outer.guard = None
    assert inner.attempts_inside(collapsed) == 3


def test_a_frame_that_has_ended_holds_on_to_nothing():
    outer = LimitedFrame(_guard(_operation("outer"), deadline=5), 0.0, None)
    frame = LimitedFrame(_guard(_operation("middle")), 0.0, outer)
    assert frame.retrier is not None
    assert frame.deadline_at == 5
    frame.end()
    assert (frame.retrier, frame.deadline_at, frame.guard) == (None, None, None)


def test_the_earlier_deadline_holds():
    outer = LimitedFrame(_guard(_operation("outer"), deadline=10), 0.0, None)
    assert _guard(_operation("a")).deadline_at(4.0, outer) == 10
    assert _guard(_operation("b"), deadline=3).deadline_at(4.0, outer) == 7
    assert _guard(_operation("c"), deadline=30).deadline_at(4.0, outer) == 10
    assert _guard(_operation("d"), deadline=30).deadline_at(4.0, None) == 34
    assert _guard(_operation("e")).deadline_at(4.0, None) is None


def test_a_deadline_is_inherited_only_on_the_same_clock():
    mine, other = VirtualClock(), VirtualClock()
    outer = LimitedFrame(_guard(_operation("outer", clock=mine), deadline=10), 0.0, None)
    middle = LimitedFrame(_guard(_operation("middle", clock=other)), 500.0, outer)
    assert middle.deadline_at is None
    assert _guard(_operation("inner", clock=other)).deadline_at(500.0, middle) is None
    assert _guard(_operation("inner", clock=mine)).deadline_at(4.0, middle) == 10
    own = _guard(_operation("own", clock=other), deadline=30)
    assert own.deadline_at(500.0, outer) == 530
    deadlined = LimitedFrame(own, 500.0, outer)
    assert _guard(_operation("inner", clock=other)).deadline_at(510.0, deadlined) == 530
    assert _guard(_operation("inner", clock=mine)).deadline_at(4.0, deadlined) == 10


def test_a_frame_runs_every_name_around_it_until_its_call_has_ended():
    outer, middle, other = _operation("outer"), _operation("middle"), _operation("outer")
    plain = _plain_frame(_guard(outer))
    frame = LimitedFrame(_guard(middle), 0.0, plain)
    assert frame.runs(outer.stats)
    assert frame.runs(middle.stats)
    assert not frame.runs(other.stats), "the same name in another service is another operation"
    assert LimitedFrame(_guard(outer), 0.0, frame).within_own
    assert not LimitedFrame(_guard(other), 0.0, frame).within_own
    frame.end()
    assert not frame.runs(middle.stats)
    plain.guard = None
    assert not plain.runs(outer.stats)


def test_adopting_says_whether_a_limit_is_new():
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


def test_a_listener_runs_outside_of_the_call_that_it_hears_of():
    frame = _plain_frame(_guard(_operation()))
    seen = []
    token = ACTIVE.set(frame)
    try:
        told = outside_calls(lambda event: seen.append(ACTIVE.get()))
        told(NestedGuardFound("inner", outer="outer", collapsed=True))
        assert seen == [None]
        assert ACTIVE.get() is frame
        failing = outside_calls(lambda event: 1 / 0)  # type: ignore[arg-type, return-value]
        with pytest.raises(ZeroDivisionError):
            failing(NestedGuardFound("inner", outer="outer", collapsed=True))
        assert ACTIVE.get() is frame
    finally:
        ACTIVE.reset(token)


def test_a_nested_guard_is_reported_once_for_each_pair_of_names():
    told: list[object] = []
    inner = _operation("inner", [told.append])
    outers = [_plain_frame(_guard(_operation(name))) for name in ("one", "two", "one")]
    for guard in (_guard(inner), _guard(inner, max_attempts=7)):
        for outer in outers:
            guard.attempts_inside(outer)
    assert told == [
        NestedGuardFound("inner", outer="one", collapsed=True),
        NestedGuardFound("inner", outer="two", collapsed=True),
    ]


def test_many_threads_report_a_pair_once():
    told: list[object] = []
    inner = _guard(_operation("inner", [told.append]))
    outer = _plain_frame(_guard(_operation("outer")))
    barrier = threading.Barrier(16)

    def call():
        barrier.wait()
        inner.attempts_inside(outer)

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 1


def test_where_nesting_is_allowed_attempts_multiply_and_that_is_reported(caplog):
    told: list[object] = []
    inner = _guard(_operation("inner", [told.append]), nested="allow", max_attempts=4)
    assert inner.attempts_inside(_plain_frame(_guard(_operation("outer")))) == 4
    assert told == [NestedGuardFound("inner", outer="outer", collapsed=False)]
    assert "guard inner runs inside guard outer: attempts multiply" in caplog.text
