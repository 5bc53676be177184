"""The moves of a circuit breaker as one pure table and the functions that apply it.

Nothing here reads a clock, takes a lock or calls out: a `Circuit` is a frozen value, and every
function returns the next one. The same moves serve the breaker in memory and the durable record
of a downstream, so both behave alike.
"""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.resilience.policy import BreakerPolicy


class CircuitState(StrEnum):
    """The state of a circuit."""

    CLOSED = "CLOSED"
    """Calls flow."""
    OPEN = "OPEN"
    """Calls are refused until `open_until`, or, where that is None, until a person releases it."""
    HALF_OPEN = "HALF_OPEN"
    """A bounded number of trial calls may find out whether the downstream is back."""


class Cause(StrEnum):
    """Why a circuit moves."""

    STREAK = "consecutive failures reach their limit"
    RATE = "failure rate over the window passes its limit"
    COOLED = "open_for is over"
    TRIALS_SUCCEEDED = "all trial calls succeed"
    TRIAL_FAILED = "a trial call fails"
    RESET = "reset by hand"
    HOLD = "held by hand"
    RELEASE = "released by hand"


MOVES: dict[tuple[CircuitState, Cause], CircuitState] = {
    (CircuitState.CLOSED, Cause.STREAK): CircuitState.OPEN,
    (CircuitState.CLOSED, Cause.RATE): CircuitState.OPEN,
    (CircuitState.OPEN, Cause.COOLED): CircuitState.HALF_OPEN,
    (CircuitState.HALF_OPEN, Cause.TRIALS_SUCCEEDED): CircuitState.CLOSED,
    (CircuitState.HALF_OPEN, Cause.TRIAL_FAILED): CircuitState.OPEN,
    (CircuitState.CLOSED, Cause.HOLD): CircuitState.OPEN,
    (CircuitState.OPEN, Cause.HOLD): CircuitState.OPEN,
    (CircuitState.HALF_OPEN, Cause.HOLD): CircuitState.OPEN,
    (CircuitState.OPEN, Cause.RELEASE): CircuitState.HALF_OPEN,
    (CircuitState.CLOSED, Cause.RESET): CircuitState.CLOSED,
    (CircuitState.OPEN, Cause.RESET): CircuitState.CLOSED,
    (CircuitState.HALF_OPEN, Cause.RESET): CircuitState.CLOSED,
}
"""Every legal move. The diagram in the documentation is drawn from this table."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial call under way: its number, and when it gives up its place.

    `outside` marks a call outside of jobs: no job's lease says whether it still runs.
    """

    number: int
    expires_at: float
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one call. A result is believed only under the generation it was started in."""

    generation: int
    trial: int | None = None


@dataclass(frozen=True, slots=True)
class Circuit:
    """The state of a breaker. Times are seconds on the clock of the breaker that keeps it.

    Attributes:
        generation: raised by every move.
        streak: failures in a row.
        opened_at: since when it has not been closed.
        open_until: when trial calls are let through; None in an open circuit: a person holds it.
        successes: trial calls that succeeded in this half-open phase.
        trials: trial calls under way.
        trials_started: how many trial calls this half-open phase has let through.
        cause: why it made its last move.
    """

    state: CircuitState = CircuitState.CLOSED
    generation: int = 0
    streak: int = 0
    opened_at: float | None = None
    open_until: float | None = None
    successes: int = 0
    trials: tuple[Trial, ...] = ()
    trials_started: int = 0
    cause: Cause | None = None

    @property
    def held(self) -> bool:
        """Whether a person holds it open."""
        return self.state is CircuitState.OPEN and self.open_until is None


def state_at(circuit: Circuit, now: float) -> CircuitState:
    """Return the state as of `now`: an open circuit whose time is over is half open."""
    if _cooled(circuit, now):
        return CircuitState.HALF_OPEN
    return circuit.state


def admit(circuit: Circuit, policy: BreakerPolicy, now: float) -> tuple[Circuit, Permit | None]:
    """Return the circuit and a permit for one call at `now`; None means refused."""
    if circuit.state is CircuitState.CLOSED:
        return circuit, Permit(circuit.generation)
    if _cooled(circuit, now):
        circuit = move(circuit, Cause.COOLED, policy, now)
    if circuit.state is CircuitState.OPEN:
        return circuit, None
    alive = tuple(trial for trial in circuit.trials if trial.expires_at > now)
    if len(alive) + circuit.successes >= policy.trial_calls:
        return circuit, None
    number = circuit.trials_started + 1
    alive = (*alive, Trial(number, now + policy.trial_lifetime))
    admitted = _half_open(circuit, alive, circuit.successes, number)
    return admitted, Permit(circuit.generation, number)


def succeed(
    circuit: Circuit,
    policy: BreakerPolicy,
    permit: Permit,
    now: float,
    *,
    rate_passed: bool = False,
) -> Circuit:
    """Record that the call under `permit` succeeded; `rate_passed` is the window's verdict.

    A success can be the call with which the window holds enough calls to be judged.
    """
    if permit.generation != circuit.generation:
        return circuit
    if circuit.state is CircuitState.CLOSED:
        if rate_passed:
            return move(_counted(circuit, 0), Cause.RATE, policy, now)
        return _counted(circuit, 0) if circuit.streak else circuit
    if not _has_place(circuit, permit):
        return circuit
    successes = circuit.successes + 1
    if successes >= policy.trial_calls:
        return move(circuit, Cause.TRIALS_SUCCEEDED, policy, now)
    return _half_open(circuit, _without(circuit, permit), successes, circuit.trials_started)


def fail(
    circuit: Circuit, policy: BreakerPolicy, permit: Permit, now: float, *, rate_passed: bool
) -> Circuit:
    """Record that the call under `permit` failed; `rate_passed` is the window's verdict."""
    if permit.generation != circuit.generation:
        return circuit
    if circuit.state is not CircuitState.CLOSED:
        if not _has_place(circuit, permit):
            return circuit
        return move(circuit, Cause.TRIAL_FAILED, policy, now)
    counted = _counted(circuit, circuit.streak + 1)
    limit = policy.consecutive_failures
    if limit is not None and counted.streak >= limit:
        return move(counted, Cause.STREAK, policy, now)
    if rate_passed:
        return move(counted, Cause.RATE, policy, now)
    return counted


def release_permit(circuit: Circuit, permit: Permit) -> Circuit:
    """Record that the call under `permit` ended as neither: its place is free again."""
    if permit.generation != circuit.generation or not _has_place(circuit, permit):
        return circuit
    remaining = _without(circuit, permit)
    return _half_open(circuit, remaining, circuit.successes, circuit.trials_started)


def extend_trial(circuit: Circuit, permit: Permit, expires_at: float, *, outside: bool) -> Circuit:
    """Let the trial under `permit` keep its place until `expires_at` at least."""
    if permit.generation != circuit.generation or not _has_place(circuit, permit):
        return circuit
    kept = tuple(
        Trial(trial.number, max(trial.expires_at, expires_at), outside)
        if trial.number == permit.trial
        else trial
        for trial in circuit.trials
    )
    if kept == circuit.trials:
        return circuit
    return _half_open(circuit, kept, circuit.successes, circuit.trials_started)


def move(circuit: Circuit, cause: Cause, policy: BreakerPolicy, now: float) -> Circuit:
    """Apply one move of the table; every move starts a new generation.

    Raises:
        ValueError: the table has no such move.
    """
    target = MOVES.get((circuit.state, cause))
    if target is None:
        raise ValueError(f"a circuit that is {circuit.state} cannot move because: {cause}")
    generation = circuit.generation + 1
    if target is CircuitState.CLOSED:
        return Circuit(generation=generation, cause=cause)
    timed = target is CircuitState.OPEN and cause is not Cause.HOLD
    return Circuit(
        state=target,
        generation=generation,
        streak=circuit.streak + (cause is Cause.TRIAL_FAILED),
        opened_at=now if circuit.opened_at is None else circuit.opened_at,
        open_until=now + policy.open_for if timed else None,
        cause=cause,
    )


def _counted(circuit: Circuit, streak: int) -> Circuit:
    return Circuit(generation=circuit.generation, streak=streak, cause=circuit.cause)


def _cooled(circuit: Circuit, now: float) -> bool:
    return circuit.open_until is not None and now >= circuit.open_until


def _has_place(circuit: Circuit, permit: Permit) -> bool:
    return any(trial.number == permit.trial for trial in circuit.trials)


def _without(circuit: Circuit, permit: Permit) -> tuple[Trial, ...]:
    return tuple(trial for trial in circuit.trials if trial.number != permit.trial)


def _half_open(
    circuit: Circuit, trials: tuple[Trial, ...], successes: int, trials_started: int
) -> Circuit:
    return Circuit(
        state=CircuitState.HALF_OPEN,
        generation=circuit.generation,
        streak=circuit.streak,
        opened_at=circuit.opened_at,
        successes=successes,
        trials=trials,
        trials_started=trials_started,
        cause=circuit.cause,
    )
