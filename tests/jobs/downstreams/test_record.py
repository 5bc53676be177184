"""The durable breaker: what is granted, how verdicts are judged, what the books say."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import (
    Admission,
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    HoldMode,
    RateSpent,
    RefusedPermit,
    Verdict,
    grant,
    judge,
    rate_room,
    rate_slices,
    settle,
)
from holdfast.resilience.breaker.transitions import Cause, CircuitState, Permit, move
from holdfast.resilience.policy import BreakerPolicy, RateLimit

POLICY = BreakerPolicy(consecutive_failures=2, open_for=30, trial_calls=2)
NOW = 1000.0


def record(**settings):
    settings.setdefault("breaker", POLICY)
    settings.setdefault("ramp_seconds", 0.0)
    return DownstreamRecord(DownstreamSettings("gateway", **settings))


def report(verdict, generation=0, trial=None, code=None):
    return CallReport("gateway", Permit(generation, trial), verdict, code)


def opened(at=NOW, **settings):
    failures = [report(Verdict.FAILURE)] * 2
    return judge(record(**settings), failures, at)


def admissions(leave):
    return [admission for admission, _ in leave.permits]


def test_a_closed_downstream_grants_what_is_wanted():
    closed = record()
    leave = grant(closed, 3, NOW)
    assert admissions(leave) == [Admission.CALL] * 3
    assert leave.record is closed


def test_concurrency_leaves_what_is_not_running():
    assert len(grant(record(concurrency=5), 9, NOW, running=3).permits) == 2
    assert grant(record(concurrency=5), 9, NOW, running=7).permits == ()


def test_an_open_one_holds_and_grants_nothing():
    held = opened()
    assert held.circuit.state is CircuitState.OPEN
    assert held.holds_at(NOW + 29)
    assert not held.holds_at(NOW + 30)
    assert grant(held, 3, NOW + 29).permits == ()


def test_after_the_cooldown_there_are_trials_and_no_more():
    leave = grant(opened(), 9, NOW + 30)
    assert admissions(leave) == [Admission.TRIAL] * 2
    assert leave.record.circuit.state is CircuitState.HALF_OPEN
    assert grant(leave.record, 9, NOW + 31).permits == ()


def test_wanting_nothing_moves_nothing():
    held = opened()
    assert grant(held, 0, NOW + 30).record is held


def test_a_trial_keeps_its_place_as_long_as_its_lease():
    trying = grant(opened(), 9, NOW + 30).record
    later = NOW + 30 + POLICY.trial_lifetime
    assert len(grant(trying, 9, later).permits) == 2
    leases = {1: later + 1, 2: later + 1}
    assert grant(trying, 9, later, trial_leases=leases).permits == ()


def test_failing_fast_refuses_while_open_and_beyond_the_trials():
    fast = opened(mode=HoldMode.FAIL_FAST)
    assert not fast.holds_at(NOW)
    assert admissions(grant(fast, 2, NOW)) == [Admission.REFUSED] * 2
    assert admissions(grant(fast, 3, NOW + 30)) == [
        Admission.TRIAL,
        Admission.TRIAL,
        Admission.REFUSED,
    ]


def test_a_refusal_tells_of_the_failure_that_came_last():
    codes = [ErrorCode.GW_TIMEOUT, ErrorCode.GW_5XX]
    failures = [report(Verdict.FAILURE, code=code) for code in codes]
    fast = judge(record(mode=HoldMode.FAIL_FAST), failures, NOW)
    ((_, refused),) = grant(fast, 1, NOW).permits
    assert refused == RefusedPermit(fast.circuit.generation, code=ErrorCode.GW_5XX)
    trying = grant(fast, 1, NOW + 30).record
    generation = trying.circuit.generation
    neither = judge(trying, [report(Verdict.NEITHER, generation, 1, ErrorCode.GW_4XX)], NOW + 31)
    assert neither.last_error is ErrorCode.GW_5XX
    lost = report(Verdict.FAILURE, generation, 1, ErrorCode.GW_UNAVAILABLE)
    assert judge(trying, [lost], NOW + 31).last_error is ErrorCode.GW_UNAVAILABLE
    stale = report(Verdict.FAILURE, generation - 1, 1, ErrorCode.GW_UNAVAILABLE)
    assert judge(trying, [stale], NOW + 31) is trying


def test_a_manual_hold_holds_in_every_mode_and_without_a_breaker():
    for settings in ({}, {"mode": HoldMode.FAIL_FAST}, {"breaker": None}):
        plain = record(**settings)
        circuit = move(plain.circuit, Cause.HOLD, POLICY, NOW)
        held = settle(plain, circuit, NOW)
        assert held.holds_at(NOW + 10**6)
        assert grant(held, 5, NOW + 10**6).permits == ()


def test_without_a_breaker_nothing_is_judged_and_nothing_held():
    plain = record(breaker=None)
    assert judge(plain, [report(Verdict.FAILURE)] * 9, NOW) is plain
    assert admissions(grant(plain, 2, NOW)) == [Admission.CALL] * 2
    stale = replace(opened(), settings=plain.settings)
    assert not stale.holds_at(NOW)
    assert len(grant(stale, 2, NOW).permits) == 2


def test_the_streak_opens_and_a_success_between_resets_it():
    f, s = report(Verdict.FAILURE), report(Verdict.SUCCESS)
    assert judge(record(), [f, s, f], NOW).circuit.state is CircuitState.CLOSED
    tripped = judge(record(), [f, s, f, f], NOW)
    assert tripped.circuit.state is CircuitState.OPEN
    assert tripped.trips == 1


def test_a_success_of_a_quiet_breaker_changes_nothing():
    quiet = record()
    assert judge(quiet, [report(Verdict.SUCCESS)] * 5, NOW) is quiet
    assert judge(quiet, [report(Verdict.NEITHER)], NOW) is quiet


def test_an_earlier_generation_says_nothing():
    held = opened()
    assert judge(held, [report(Verdict.FAILURE, 0), report(Verdict.SUCCESS, 0)], NOW) is held


def test_trials_close_it_and_the_books_say_how_long_it_was_open():
    trying = grant(opened(), 2, NOW + 30).record
    generation = trying.circuit.generation
    closed = judge(
        trying,
        [report(Verdict.SUCCESS, generation, 1), report(Verdict.SUCCESS, generation, 2)],
        NOW + 45,
    )
    assert closed.circuit.state is CircuitState.CLOSED
    assert (closed.closed_at, closed.open_seconds, closed.trips) == (NOW + 45, 45.0, 1)


def test_a_trial_that_says_nothing_gives_its_place_back():
    trying = grant(opened(), 2, NOW + 30).record
    generation = trying.circuit.generation
    freed = judge(trying, [report(Verdict.NEITHER, generation, 1)], NOW + 31)
    assert len(grant(freed, 9, NOW + 31).permits) == 1


def test_a_reopening_is_no_new_trip():
    trying = grant(opened(), 2, NOW + 30).record
    again = judge(trying, [report(Verdict.FAILURE, trying.circuit.generation, 1)], NOW + 31)
    assert again.circuit.state is CircuitState.OPEN
    assert again.trips == 1


def test_the_rate_over_the_last_calls():
    policy = BreakerPolicy(consecutive_failures=None, failure_rate=0.5, window_calls=4)
    f, s = report(Verdict.FAILURE), report(Verdict.SUCCESS)
    calm = judge(record(breaker=policy), [s, s, f, f], NOW)
    assert calm.circuit.state is CircuitState.CLOSED
    assert len(calm.window) == 4
    assert judge(calm, [f], NOW).circuit.state is CircuitState.OPEN
    assert judge(calm, [f], NOW).window == ()


def test_the_rate_over_time_forgets_old_calls():
    policy = BreakerPolicy(
        consecutive_failures=None, failure_rate=0.5, window_seconds=60, minimum_calls=2
    )
    f = report(Verdict.FAILURE)
    one = judge(record(breaker=policy), [f], NOW)
    assert one.circuit.state is CircuitState.CLOSED
    assert judge(one, [f], NOW + 56).circuit.state is CircuitState.OPEN
    assert judge(one, [f], NOW + 61).circuit.state is CircuitState.CLOSED


def test_calls_of_one_moment_share_a_slice_also_when_the_clock_steps_back():
    policy = BreakerPolicy(
        consecutive_failures=None, failure_rate=0.9, window_seconds=60, minimum_calls=50
    )
    one = judge(record(breaker=policy), [report(Verdict.SUCCESS)] * 3, NOW)
    assert len(one.window) == 1
    back = judge(one, [report(Verdict.FAILURE)], NOW - 30)
    assert back.window == ((one.window[0][0], 4, 1),)


def test_the_backlog_is_let_go_in_doubling_steps():
    closed = replace(record(ramp_seconds=80.0), closed_at=NOW)
    allowed = [len(grant(closed, 10**6, NOW + age).permits) for age in (-5, 0, 10, 25, 79, 80)]
    assert allowed == [4, 4, 8, 16, 512, 10**6]
    assert len(grant(closed, 9, NOW, running=3).permits) == 1


def test_a_rate_without_limits_has_no_slices():
    assert rate_slices(None) == ()
    assert rate_room(None, [], NOW) > 10**6
    assert rate_slices(RateLimit(per_minute=3, per_day=5)) == (
        (60.0, 1.0, 3),
        (86400.0, 900.0, 5),
    )


def test_each_limit_looks_at_its_own_slices():
    rate = RateLimit(per_minute=10, per_day=20)
    spent = [RateSpent(1.0, int(NOW) - 5, 4), RateSpent(900.0, int(NOW // 900), 18)]
    assert rate_room(rate, spent, NOW) == 2
    assert rate_room(rate, spent, NOW + 120) == 2
    assert rate_room(RateLimit(per_minute=10), spent, NOW) == 6
    assert rate_room(RateLimit(per_minute=3), spent, NOW) == 0


@given(st.lists(st.floats(0, 200), min_size=1, max_size=60))
def test_no_minute_ever_holds_more_than_its_limit(times):
    rate, starts, spent = RateLimit(per_minute=4), [], {}
    for now in sorted(times):
        entries = [RateSpent(1.0, bucket, n) for bucket, n in spent.items()]
        if rate_room(rate, entries, now) > 0:
            starts.append(now)
            spent[int(now)] = spent.get(int(now), 0) + 1
    for start in starts:
        assert sum(start <= other < start + 60 for other in starts) <= 4


@pytest.mark.parametrize("trial_calls", [1, 2, 3])
@given(data=st.data())
def test_however_the_verdicts_fall_no_more_trials_are_alive_than_allowed(trial_calls, data):
    policy = BreakerPolicy(consecutive_failures=1, open_for=10, trial_calls=trial_calls)
    current, now, alive = record(breaker=policy), NOW, []
    for _ in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.floats(0, 12))
        leave = grant(
            current,
            data.draw(st.integers(0, 4)),
            now,
            trial_leases={
                permit.trial: now + 99
                for permit in alive
                if permit.generation == current.circuit.generation
            },
        )
        current = leave.record
        alive += [permit for admission, permit in leave.permits if admission is Admission.TRIAL]
        ours = [p for p in alive if p.generation == current.circuit.generation]
        assert len(ours) <= trial_calls
        if alive and data.draw(st.booleans()):
            permit = alive.pop(0)
        else:
            permit = Permit(current.circuit.generation)
        verdict = data.draw(st.sampled_from(Verdict))
        current = judge(current, [CallReport("gateway", permit, verdict)], now)


def test_a_trial_that_succeeds_is_remembered_even_where_its_phase_is_over():
    leave = grant(opened(), 2, NOW + 31)
    assert [permit.well_at for _, permit in leave.permits] == [None, None]
    trying = leave.record
    generation = trying.circuit.generation
    failed = judge(trying, [report(Verdict.FAILURE, generation, 1)], NOW + 32)
    assert failed.well_at is None
    noted = judge(failed, [report(Verdict.SUCCESS, generation, 2)], NOW + 33)
    assert noted.well_at == NOW + 33
    assert noted.circuit == failed.circuit
    ((_, again), *_) = grant(noted, 1, NOW + 70).permits
    assert again.well_at == NOW + 33
