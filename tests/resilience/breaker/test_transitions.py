"""The transitions of a circuit."""

from dataclasses import replace

import pytest

from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import (
    MOVES,
    Cause,
    Circuit,
    CircuitState,
    Permit,
    admit,
    fail,
    move,
    release_permit,
    state_at,
    succeed,
)
from holdfast.resilience.policy import BreakerPolicy

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN
POLICY = BreakerPolicy(consecutive_failures=3, open_for=60, trial_calls=2, trial_timeout=5)


def _failed(circuit: Circuit, times: int, now: float = 0.0) -> Circuit:
    for _ in range(times):
        circuit = fail(circuit, POLICY, Permit(circuit.generation), now, rate_passed=False)
    return circuit


def _opened(now: float = 0.0) -> Circuit:
    return _failed(Circuit(), 3, now)


def _trials(circuit: Circuit, now: float, count: int) -> tuple[Circuit, list[Permit | None]]:
    permits = []
    for _ in range(count):
        circuit, permit = admit(circuit, POLICY, now)
        permits.append(permit)
    return circuit, permits


def test_the_table_is_the_state_machine_of_the_requirements():
    assert MOVES[CLOSED, Cause.STREAK] is OPEN
    assert MOVES[CLOSED, Cause.RATE] is OPEN
    assert MOVES[OPEN, Cause.COOLED] is HALF_OPEN
    assert MOVES[HALF_OPEN, Cause.TRIALS_SUCCEEDED] is CLOSED
    assert MOVES[HALF_OPEN, Cause.TRIAL_FAILED] is OPEN
    assert all(MOVES[state, Cause.RESET] is CLOSED for state in CircuitState)
    assert all(MOVES[state, Cause.HOLD] is OPEN for state in CircuitState)
    assert [state for state, cause in MOVES if cause is Cause.RELEASE] == [OPEN]


@pytest.mark.parametrize("state", list(CircuitState))
@pytest.mark.parametrize("cause", list(Cause))
def test_every_move_follows_the_table_and_starts_a_generation(state, cause):
    circuit = Circuit(state=state, generation=7, streak=2)
    target = MOVES.get((state, cause))
    if target is None:
        with pytest.raises(ValueError, match=f"a circuit that is {state} cannot move"):
            move(circuit, cause, POLICY, 1.0)
    else:
        after = move(circuit, cause, POLICY, 1.0)
        assert (after.state, after.generation, after.cause) == (target, 8, cause)


def test_a_closed_circuit_permits_every_call_under_its_generation():
    circuit = Circuit(generation=4, streak=2)
    assert admit(circuit, POLICY, 0.0) == (circuit, Permit(4))


def test_it_opens_on_exactly_the_nth_failure_in_a_row():
    circuit = _failed(Circuit(), 2)
    assert (circuit.state, circuit.streak) == (CLOSED, 2)
    circuit = _failed(circuit, 1, now=10.0)
    assert (circuit.state, circuit.streak, circuit.cause) == (OPEN, 3, Cause.STREAK)
    assert (circuit.opened_at, circuit.open_until) == (10, 70)


def test_a_success_ends_the_streak():
    circuit = succeed(_failed(Circuit(), 2), POLICY, Permit(0), 0.0)
    assert circuit.streak == 0
    assert _failed(circuit, 2).state is CLOSED


def test_a_success_without_a_streak_changes_nothing():
    circuit = Circuit()
    assert succeed(circuit, POLICY, Permit(0), 0.0) is circuit


def test_the_rates_verdict_opens_without_a_streak():
    circuit = fail(Circuit(), POLICY, Permit(0), 5.0, rate_passed=True)
    assert (circuit.state, circuit.cause, circuit.streak) == (OPEN, Cause.RATE, 1)


def test_without_a_streak_rule_only_the_rate_opens():
    policy = BreakerPolicy(consecutive_failures=None, failure_rate=0.5)
    circuit = Circuit()
    for _ in range(100):
        circuit = fail(circuit, policy, Permit(0), 0.0, rate_passed=False)
    assert circuit.state is CLOSED
    assert fail(circuit, policy, Permit(0), 0.0, rate_passed=True).state is OPEN


def test_open_refuses_until_its_time_is_over_to_the_moment():
    circuit = _opened()
    assert admit(circuit, POLICY, 59.999) == (circuit, None)
    assert state_at(circuit, 59.999) is OPEN
    assert state_at(circuit, 60.0) is HALF_OPEN
    after, permit = admit(circuit, POLICY, 60.0)
    assert after.state is HALF_OPEN
    assert permit == Permit(after.generation, 1)


def test_exactly_trial_calls_are_permitted():
    _, permits = _trials(_opened(), 60.0, 50)
    assert sum(permit is not None for permit in permits) == 2


def test_a_success_keeps_its_place_until_the_circuit_closes():
    circuit, permits = _trials(_opened(), 60.0, 2)
    circuit = succeed(circuit, POLICY, permits[0], 61.0)  # type: ignore[arg-type]
    assert circuit.successes == 1
    assert admit(circuit, POLICY, 61.0)[1] is None


def test_it_closes_when_all_trials_have_succeeded():
    circuit, permits = _trials(_opened(), 60.0, 2)
    for permit in permits:
        assert permit is not None
        circuit = succeed(circuit, POLICY, permit, 61.0)
    assert circuit == Circuit(generation=circuit.generation, cause=Cause.TRIALS_SUCCEEDED)


def test_a_failed_trial_opens_it_for_the_full_time_again():
    circuit, (permit, _) = _trials(_opened(), 60.0, 2)
    assert permit is not None
    circuit = fail(circuit, POLICY, permit, 63.0, rate_passed=False)
    assert (circuit.state, circuit.cause) == (OPEN, Cause.TRIAL_FAILED)
    assert circuit.open_until == 123
    assert circuit.opened_at == 0, "it has not been closed since"
    assert circuit.streak == 4


def test_a_trial_that_never_returns_loses_its_permit_after_its_timeout():
    circuit, _ = _trials(_opened(), 60.0, 2)
    assert admit(circuit, POLICY, 64.999)[1] is None
    circuit, permit = admit(circuit, POLICY, 65.0)
    assert permit == Permit(circuit.generation, 3)
    assert len(circuit.trials) == 1


def test_a_trial_that_lost_its_place_no_longer_matters():
    circuit, (lost, _) = _trials(_opened(), 60.0, 2)
    assert lost is not None
    circuit, _ = admit(circuit, POLICY, 65.0)
    assert succeed(circuit, POLICY, lost, 66.0) is circuit
    assert fail(circuit, POLICY, lost, 66.0, rate_passed=True) is circuit
    assert release_permit(circuit, lost) is circuit


def test_a_late_trial_whose_place_is_still_free_counts():
    circuit, (late, _) = _trials(_opened(), 60.0, 2)
    assert late is not None
    assert succeed(circuit, POLICY, late, 99.0).successes == 1


def test_a_released_trial_permit_is_free_at_once():
    circuit, (permit, _) = _trials(_opened(), 60.0, 2)
    assert permit is not None
    circuit = release_permit(circuit, permit)
    assert circuit.state is HALF_OPEN
    circuit, again = admit(circuit, POLICY, 60.0)
    assert again == Permit(circuit.generation, 3)


def _in_state(state: CircuitState) -> Circuit:
    circuit = {CLOSED: _failed(Circuit(), 1), OPEN: _opened(), HALF_OPEN: _opened()}[state]
    if state is HALF_OPEN:
        circuit, _ = admit(circuit, POLICY, 60.0)
    return replace(circuit, generation=circuit.generation + 5)


@pytest.mark.parametrize("state", list(CircuitState))
@pytest.mark.parametrize("trial", [None, 1])
def test_a_late_result_from_before_the_last_move_changes_nothing(state, trial):
    circuit = _in_state(state)
    late = Permit(circuit.generation - 1, trial)
    assert succeed(circuit, POLICY, late, 61.0) is circuit
    assert fail(circuit, POLICY, late, 61.0, rate_passed=True) is circuit
    assert release_permit(circuit, late) is circuit


@pytest.mark.parametrize("state", [OPEN, HALF_OPEN])
def test_a_result_without_a_trials_place_changes_nothing_while_not_closed(state):
    circuit = _in_state(state)
    placeless = Permit(circuit.generation)
    assert succeed(circuit, POLICY, placeless, 61.0) is circuit
    assert fail(circuit, POLICY, placeless, 61.0, rate_passed=True) is circuit
    assert release_permit(circuit, placeless) is circuit


def test_a_held_circuit_stays_open_for_ever():
    held = move(Circuit(), Cause.HOLD, POLICY, 0.0)
    assert held.held
    assert state_at(held, 1e12) is OPEN
    assert admit(held, POLICY, 1e12) == (held, None)


def test_release_lets_trials_through_at_once():
    held = move(_opened(), Cause.HOLD, POLICY, 1.0)
    released = move(held, Cause.RELEASE, POLICY, 2.0)
    assert released.state is HALF_OPEN
    assert not released.held
    assert admit(released, POLICY, 2.0)[1] is not None


def test_only_an_open_circuit_without_an_end_is_held():
    assert not Circuit().held
    assert not _opened().held
    assert not transitions.admit(_opened(), POLICY, 60.0)[0].held
