"""The durable record of a downstream: how verdicts change its breaker."""

from dataclasses import replace

from tests.support.downstreams import NOW, admissions, opened, record, report

from holdfast.jobs.downstreams.claim_permits import grant
from holdfast.jobs.downstreams.record import Admission, Verdict, judge
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.policy import BreakerPolicy


def test_without_a_breaker_verdicts_are_ignored_and_nothing_is_held():
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


def test_verdicts_of_an_earlier_generation_are_ignored():
    held = opened()
    assert judge(held, [report(Verdict.FAILURE, 0), report(Verdict.SUCCESS, 0)], NOW) is held


def test_successful_trials_close_it_and_the_open_time_is_recorded():
    trying = grant(opened(), 2, NOW + 30).record
    generation = trying.circuit.generation
    closed = judge(
        trying,
        [report(Verdict.SUCCESS, generation, 1), report(Verdict.SUCCESS, generation, 2)],
        NOW + 45,
    )
    assert closed.circuit.state is CircuitState.CLOSED
    assert (closed.closed_at, closed.open_seconds, closed.trips) == (NOW + 45, 45.0, 1)


def test_a_trial_without_a_verdict_releases_its_permit():
    trying = grant(opened(), 2, NOW + 30).record
    generation = trying.circuit.generation
    freed = judge(trying, [report(Verdict.NEITHER, generation, 1)], NOW + 31)
    assert len(grant(freed, 9, NOW + 31).permits) == 1


def test_a_reopening_is_not_counted_as_a_trip():
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


def test_the_rate_over_time_ignores_old_calls():
    policy = BreakerPolicy(
        consecutive_failures=None, failure_rate=0.5, window_seconds=60, minimum_calls=2
    )
    f = report(Verdict.FAILURE)
    one = judge(record(breaker=policy), [f], NOW)
    assert one.circuit.state is CircuitState.CLOSED
    assert judge(one, [f], NOW + 56).circuit.state is CircuitState.OPEN
    assert judge(one, [f], NOW + 61).circuit.state is CircuitState.CLOSED


def test_calls_at_one_time_share_a_bucket_also_when_the_clock_steps_back():
    policy = BreakerPolicy(
        consecutive_failures=None, failure_rate=0.9, window_seconds=60, minimum_calls=50
    )
    one = judge(record(breaker=policy), [report(Verdict.SUCCESS)] * 3, NOW)
    assert len(one.window) == 1
    back = judge(one, [report(Verdict.FAILURE)], NOW - 30)
    assert back.window == ((one.window[0][0], 4, 1),)


def test_a_successful_trial_is_recorded_even_after_the_circuit_reopened():
    granted = grant(opened(), 2, NOW + 31)
    assert [permit.well_at for _, permit in granted.permits] == [None, None]
    trying = granted.record
    generation = trying.circuit.generation
    failed = judge(trying, [report(Verdict.FAILURE, generation, 1)], NOW + 32)
    assert failed.well_at is None
    noted = judge(failed, [report(Verdict.SUCCESS, generation, 2)], NOW + 33)
    assert noted.well_at == NOW + 33
    assert noted.circuit == failed.circuit
    ((_, again), *_) = grant(noted, 1, NOW + 70).permits
    assert again.well_at == NOW + 33
