"""The durable record of a downstream: how verdicts change its breaker."""

from dataclasses import replace

from tests.support.downstreams import NOW, POLICY, admissions, opened, record, report

from holdfast.jobs.downstreams.claim_permits import grant
from holdfast.jobs.downstreams.record import (
    USE_NOTED_EVERY,
    Admission,
    CallReport,
    TrialRetry,
    Verdict,
    judge,
    probe_from,
    with_circuit,
)
from holdfast.resilience.breaker.transitions import Cause, CircuitState, Permit, move
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


def failed_trial(trying, number=1, ready_at=NOW + 100, job="j1"):
    return CallReport(
        "gateway",
        Permit(trying.circuit.generation, number),
        Verdict.FAILURE,
        retry=TrialRetry(job, 1, ready_at),
    )


def test_jobs_of_failed_trials_are_remembered_until_it_closes_or_they_are_due():
    trying = grant(opened(), 2, NOW + 30).record
    both = [failed_trial(trying, 1), failed_trial(trying, 2, NOW + 300, "j2")]
    waiting = judge(trying, both, NOW + 31)
    assert [retry.job_id for retry in waiting.trial_retries] == ["j1", "j2"]
    assert waiting.released_trials() == ()
    again = grant(waiting, 2, NOW + 150).record
    later = judge(again, [failed_trial(again, 1, NOW + 400, "j3")], NOW + 151)
    assert [retry.job_id for retry in later.trial_retries] == ["j2", "j3"]
    closed = with_circuit(later, move(later.circuit, Cause.RESET, POLICY, NOW + 152), NOW + 152)
    assert closed.released_trials() == later.trial_retries


def test_a_success_and_a_trial_without_a_verdict_leave_no_retry_behind():
    trying = grant(opened(), 2, NOW + 30).record
    for verdict in (Verdict.SUCCESS, Verdict.NEITHER):
        ended = replace(failed_trial(trying), verdict=verdict)
        assert judge(trying, [ended], NOW + 31).trial_retries == ()


def test_a_passing_probe_waits_longer_after_each_failed_round_of_trials():
    current, now, waits = opened(), NOW, []
    assert probe_from(current, 2.0) <= now
    for _ in range(5):
        now += POLICY.open_for
        trying = grant(current, 1, now).record
        current = judge(trying, [failed_trial(trying)], now)
        waits.append(probe_from(current, 2.0) - now)
    assert waits == [4.0, 8.0, 16.0, POLICY.open_for, POLICY.open_for]
    closed = with_circuit(current, move(current.circuit, Cause.RESET, POLICY, now), now)
    assert closed.failed_rounds == 0


def test_a_passing_probe_need_not_wait_while_a_person_holds_it():
    held = with_circuit(opened(), move(opened().circuit, Cause.HOLD, POLICY, NOW), NOW)
    assert probe_from(replace(held, failed_rounds=9), 2.0) == 0.0


def test_a_use_is_noted_once_an_hour_and_only_where_a_key_made_the_record():
    used = replace(record(parent="host"), used_at=NOW)
    assert used.use_is_noted(NOW + USE_NOTED_EVERY - 1)
    assert not used.use_is_noted(NOW + USE_NOTED_EVERY)
    assert record().use_is_noted(NOW)
