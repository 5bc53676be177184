"""What a guarded call inside another may do."""

import threading

import pytest

from holdfast.events import NestedGuardFound
from holdfast.resilience.active_call import ACTIVE, ActiveCall, LimitedCall, outside_calls
from holdfast.resilience.guard import Guard, Operation
from holdfast.resilience.policy import RetryPolicy
from holdfast.testing import VirtualClock, seeded_rng

CLOCK = VirtualClock()


def _operation(name: str = "orders", listeners=(), clock=CLOCK) -> Operation:
    return Operation(name, clock, tuple(listeners))


def _guard(operation: Operation, nested="collapse", **policy) -> Guard:
    bound = RetryPolicy(**policy)
    operation.adopt(bound)
    return Guard(operation, bound, rng=seeded_rng(), nested=nested)


def _plain_call(guard: Guard) -> ActiveCall:
    call = ActiveCall()
    call.guard = guard
    return call


def _limited_call(guard: Guard, started: float, outer: ActiveCall | None) -> LimitedCall:
    return LimitedCall(guard, started, outer, blocking=False)


def _attempts(guard: Guard, outer: ActiveCall | None) -> int:
    return _limited_call(guard, 0.0, outer).attempts


def _deadline(guard: Guard, started: float, outer: ActiveCall | None) -> float | None:
    return _limited_call(guard, started, outer).deadline_at


def test_inside_a_call_that_retries_an_inner_call_has_one_attempt():
    outer = _plain_call(_guard(_operation("outer")))
    inner = _guard(_operation("inner"), max_attempts=5)
    assert _attempts(inner, None) == 5
    assert _attempts(inner, outer) == 1


def test_inside_a_call_that_has_ended_or_does_not_retry_all_attempts_are_allowed():
    inner = _guard(_operation("inner"), max_attempts=5)
    once = _plain_call(_guard(_operation("once"), max_attempts=1))
    assert _attempts(inner, once) == 5
    ended = _plain_call(_guard(_operation("outer")))
    ended.guard = None
    assert _attempts(inner, ended) == 5


def test_a_call_around_the_one_around_is_seen_too():
    outer = _plain_call(_guard(_operation("outer")))
    collapsed = _limited_call(_guard(_operation("middle")), 0.0, outer)
    once = _limited_call(_guard(_operation("once"), max_attempts=1), 0.0, outer)
    inner = _guard(_operation("inner"))
    assert collapsed.attempts == 1
    assert _attempts(inner, collapsed) == 1
    assert _attempts(inner, once) == 1
    outer.guard = None
    assert _attempts(inner, collapsed) == 3


def test_a_call_that_has_ended_keeps_nothing_of_the_call_around_it():
    outer = _limited_call(_guard(_operation("outer"), deadline=5), 0.0, None)
    call = _limited_call(_guard(_operation("middle")), 0.0, outer)
    assert call.retrier is not None
    assert call.deadline_on(CLOCK) == 5
    call.guard = None
    call.restore_outer(None)
    assert (call.retrier, call.deadline_on(CLOCK), call.outer) == (None, None, None)


def test_the_earlier_deadline_holds():
    outer = _limited_call(_guard(_operation("outer"), deadline=10), 0.0, None)
    assert _deadline(_guard(_operation("a")), 4.0, outer) == 10
    assert _deadline(_guard(_operation("b"), deadline=3), 4.0, outer) == 7
    assert _deadline(_guard(_operation("c"), deadline=30), 4.0, outer) == 10
    assert _deadline(_guard(_operation("d"), deadline=30), 4.0, None) == 34
    assert _deadline(_guard(_operation("e")), 4.0, None) is None


def test_a_deadline_is_inherited_only_on_the_same_clock():
    mine, other = VirtualClock(), VirtualClock()
    outer = _limited_call(_guard(_operation("outer", clock=mine), deadline=10), 0.0, None)
    middle = _limited_call(_guard(_operation("middle", clock=other)), 500.0, outer)
    assert middle.deadline_at is None
    assert _deadline(_guard(_operation("inner", clock=other)), 500.0, middle) is None
    assert _deadline(_guard(_operation("inner", clock=mine)), 4.0, middle) == 10
    own = _guard(_operation("own", clock=other), deadline=30)
    assert _deadline(own, 500.0, outer) == 530
    deadlined = _limited_call(own, 500.0, outer)
    assert _deadline(_guard(_operation("inner", clock=other)), 510.0, deadlined) == 530
    assert _deadline(_guard(_operation("inner", clock=mine)), 4.0, deadlined) == 10


def test_a_call_runs_every_name_around_it_until_its_call_has_ended():
    outer, middle, other = _operation("outer"), _operation("middle"), _operation("outer")
    plain = _plain_call(_guard(outer))
    call = _limited_call(_guard(middle), 0.0, plain)
    assert call.runs(outer.stats)
    assert call.runs(middle.stats)
    assert not call.runs(other.stats), "the same name in another service is another operation"
    call.guard = None
    assert not call.runs(middle.stats)
    plain.guard = None
    assert not plain.runs(outer.stats)


def test_a_listener_runs_outside_of_the_call_whose_event_it_gets():
    call = _plain_call(_guard(_operation()))
    seen = []
    token = ACTIVE.set(call)
    try:
        told = outside_calls(lambda event: seen.append(ACTIVE.get()))
        told(NestedGuardFound("inner", outer="outer", collapsed=True))
        assert seen == [None]
        assert ACTIVE.get() is call
        failing = outside_calls(lambda event: 1 / 0)  # type: ignore[arg-type, return-value]
        with pytest.raises(ZeroDivisionError):
            failing(NestedGuardFound("inner", outer="outer", collapsed=True))
        assert ACTIVE.get() is call
    finally:
        ACTIVE.reset(token)


def test_a_nested_guard_is_reported_once_for_each_pair_of_names():
    told: list[object] = []
    inner = _operation("inner", [told.append])
    outers = [_plain_call(_guard(_operation(name))) for name in ("one", "two", "one")]
    for guard in (_guard(inner), _guard(inner, max_attempts=7)):
        for outer in outers:
            _attempts(guard, outer)
    assert told == [
        NestedGuardFound("inner", outer="one", collapsed=True),
        NestedGuardFound("inner", outer="two", collapsed=True),
    ]


def test_many_threads_report_a_pair_once():
    told: list[object] = []
    inner = _guard(_operation("inner", [told.append]))
    outer = _plain_call(_guard(_operation("outer")))
    barrier = threading.Barrier(16)

    def call():
        barrier.wait()
        _attempts(inner, outer)

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 1


def test_where_nesting_is_allowed_attempts_multiply_and_that_is_reported(caplog):
    told: list[object] = []
    inner = _guard(_operation("inner", [told.append]), nested="allow", max_attempts=4)
    assert _attempts(inner, _plain_call(_guard(_operation("outer")))) == 4
    assert told == [NestedGuardFound("inner", outer="outer", collapsed=False)]
    assert "guard inner runs inside guard outer: attempts multiply" in caplog.text
