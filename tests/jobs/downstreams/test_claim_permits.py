"""Permits for a claim: the breaker, trial calls, concurrency, the ramp and rate limits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.downstreams import NOW, POLICY, admissions, opened, record, report

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.claim_permits import (
    RateSpent,
    grant,
    rate_check_at,
    rate_remaining,
    rate_slices,
    rate_widths,
)
from holdfast.jobs.downstreams.record import (
    Admission,
    CallReport,
    HoldMode,
    RefusedPermit,
    Verdict,
    judge,
    with_circuit,
)
from holdfast.resilience.breaker.transitions import Cause, CircuitState, Permit, move
from holdfast.resilience.policy import BreakerPolicy, RateLimit


def test_a_closed_downstream_grants_all_wanted_permits():
    closed = record()
    granted = grant(closed, 3, NOW)
    assert admissions(granted) == [Admission.CALL] * 3
    assert granted.record is closed


def test_running_jobs_count_against_the_concurrency_limit():
    assert len(grant(record(concurrency=5), 9, NOW, running=3).permits) == 2
    assert grant(record(concurrency=5), 9, NOW, running=7).permits == ()


def test_few_jobs_run_until_a_call_has_succeeded_and_after_a_failure():
    new = record(unproven_concurrency=2)
    assert len(grant(new, 9, NOW, running=1).permits) == 1
    proven = judge(new, [report(Verdict.SUCCESS)], NOW)
    assert len(grant(proven, 9, NOW, running=1).permits) == 9
    assert judge(proven, [report(Verdict.SUCCESS), report(Verdict.NEITHER)], NOW) is proven
    failed = judge(proven, [report(Verdict.FAILURE)], NOW)
    assert grant(failed, 9, NOW, running=2).permits == ()


def test_an_open_downstream_holds_and_grants_nothing():
    held = opened()
    assert held.circuit.state is CircuitState.OPEN
    assert held.holds_at(NOW + 29)
    assert not held.holds_at(NOW + 30)
    assert grant(held, 3, NOW + 29).permits == ()


def test_after_the_cooldown_only_trial_calls_are_granted():
    granted = grant(opened(), 9, NOW + 30)
    assert admissions(granted) == [Admission.TRIAL] * 2
    assert granted.record.circuit.state is CircuitState.HALF_OPEN
    assert grant(granted.record, 9, NOW + 31).permits == ()


def test_a_claim_of_zero_jobs_changes_nothing():
    held = opened()
    assert grant(held, 0, NOW + 30).record is held


def test_a_trial_permit_lasts_as_long_as_its_lease():
    trying = grant(opened(), 9, NOW + 30).record
    later = NOW + 30 + POLICY.trial_lifetime
    assert len(grant(trying, 9, later).permits) == 2
    leases = {1: later + 1, 2: later + 1}
    assert grant(trying, 9, later, trial_leases=leases).permits == ()


def test_a_trial_permit_ends_with_its_attempt():
    trying = grant(opened(), 9, NOW + 30).record
    assert len(grant(trying, 9, NOW + 31, trial_leases={2: NOW + 99}).permits) == 1
    assert len(grant(trying, 9, NOW + 31, trial_leases={}).permits) == 2


def test_fail_fast_refuses_while_open_and_beyond_the_trials():
    fast = opened(mode=HoldMode.FAIL_FAST)
    assert not fast.holds_at(NOW)
    assert admissions(grant(fast, 2, NOW)) == [Admission.REFUSED] * 2
    assert admissions(grant(fast, 3, NOW + 30)) == [
        Admission.TRIAL,
        Admission.TRIAL,
        Admission.REFUSED,
    ]


def test_a_manual_hold_applies_in_every_mode_and_without_a_breaker():
    for settings in ({}, {"mode": HoldMode.FAIL_FAST}, {"breaker": None}):
        plain = record(**settings)
        circuit = move(plain.circuit, Cause.HOLD, POLICY, NOW)
        held = with_circuit(plain, circuit, NOW)
        assert held.holds_at(NOW + 10**6)
        assert grant(held, 5, NOW + 10**6).permits == ()


def test_after_closing_the_number_of_running_jobs_doubles_step_by_step():
    closed = replace(record(ramp_seconds=80.0), closed_at=NOW)
    allowed = [len(grant(closed, 10**6, NOW + age).permits) for age in (-5, 0, 10, 25, 79, 80)]
    assert allowed == [4, 4, 8, 16, 512, 10**6]
    assert len(grant(closed, 9, NOW, running=3).permits) == 1


def test_a_rate_without_limits_has_no_slices():
    assert rate_slices(None) == ()
    assert rate_remaining(None, [], NOW) > 10**6
    assert rate_slices(RateLimit(per_minute=3, per_day=5)) == (
        (60.0, 1.0, 3),
        (86400.0, 900.0, 5),
    )


def test_each_limit_counts_its_own_slices():
    rate = RateLimit(per_minute=10, per_day=20)
    spent = [RateSpent(1.0, int(NOW) - 5, 4), RateSpent(900.0, int(NOW // 900), 18)]
    assert rate_remaining(rate, spent, NOW) == 2
    assert rate_remaining(rate, spent, NOW + 120) == 2
    assert rate_remaining(RateLimit(per_minute=10), spent, NOW) == 6
    assert rate_remaining(RateLimit(per_minute=3), spent, NOW) == 0


@given(st.lists(st.floats(0, 200), min_size=1, max_size=60))
def test_no_minute_exceeds_the_limit(times):
    rate, starts, spent = RateLimit(per_minute=4), [], {}
    for now in sorted(times):
        entries = [RateSpent(1.0, bucket, n) for bucket, n in spent.items()]
        if rate_remaining(rate, entries, now) > 0:
            starts.append(now)
            spent[int(now)] = spent.get(int(now), 0) + 1
    for start in starts:
        assert sum(start <= other < start + 60 for other in starts) <= 4


@pytest.mark.parametrize("trial_calls", [1, 2, 3])
@given(data=st.data())
def test_no_sequence_of_verdicts_allows_more_trials_than_the_limit(trial_calls, data):
    policy = BreakerPolicy(consecutive_failures=1, open_for=10, trial_calls=trial_calls)
    current, now, alive = record(breaker=policy), NOW, []
    for _ in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.floats(0, 12))
        granted = grant(
            current,
            data.draw(st.integers(0, 4)),
            now,
            trial_leases={
                permit.trial: now + 99
                for permit in alive
                if permit.generation == current.circuit.generation
            },
        )
        current = granted.record
        alive += [permit for admission, permit in granted.permits if admission is Admission.TRIAL]
        ours = [p for p in alive if p.generation == current.circuit.generation]
        assert len(ours) <= trial_calls
        if alive and data.draw(st.booleans()):
            permit = alive.pop(0)
        else:
            permit = Permit(current.circuit.generation)
        verdict = data.draw(st.sampled_from(Verdict))
        current = judge(current, [CallReport("gateway", permit, verdict)], now)


def test_a_refusal_has_the_code_of_the_last_failure():
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


def test_seconds_and_gaps_have_slices_of_their_own():
    assert rate_slices(RateLimit(per_second=10)) == ((1.0, 0.05, 10),)
    assert rate_slices(RateLimit(per_minute=30, spread=True)) == ((60.0, 1.0, 30), (2.0, 0.2, 1))
    # Gaps of 10 ms: five starts in 50 ms.
    assert rate_slices(RateLimit(per_second=100, spread=True))[1] == (0.05, 0.005, 5)


def test_starts_are_counted_once_where_two_limits_have_slices_of_one_width():
    assert rate_widths(RateLimit(per_minute=6, spread=True)) == {1.0: 60.0}


def test_a_limited_claim_looks_again_when_a_slice_frees_or_after_a_second():
    rate = RateLimit(per_second=1)
    assert rate_check_at(rate, [], NOW) == NOW + 1
    spent = [RateSpent(0.05, int((NOW - 0.5) // 0.05), 1)]
    assert NOW + 0.4 < rate_check_at(rate, spent, NOW) < NOW + 0.6
    assert rate_check_at(RateLimit(per_minute=1), [RateSpent(1.0, int(NOW), 1)], NOW) == NOW + 1
