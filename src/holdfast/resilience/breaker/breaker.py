"""The breaker in memory: the lock around the moves and the window.

While the circuit is closed, acquiring a permit reads two attributes and takes no lock. The lock is
never held while the operation or a listener runs, so slow calls do not wait for each other.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from threading import RLock
from typing import ParamSpec, TypeVar

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import CircuitOpenError
from holdfast.events import BreakerChanged, Listener, notify
from holdfast.resilience import checks
from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import Cause, Circuit, CircuitState, Permit
from holdfast.resilience.breaker.window import window_for
from holdfast.resilience.categorize import diagnose
from holdfast.resilience.policy import BreakerPolicy

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("holdfast.breaker")


@dataclass(frozen=True, slots=True)
class CircuitSnapshot:
    """A breaker at one moment.

    Attributes:
        state: CLOSED, OPEN or HALF_OPEN.
        failure_count: consecutive failures counted so far.
        next_attempt_at: when trial calls are let through, in epoch seconds; None while closed
            or held.
        opened_at: since when it has not been closed, in epoch seconds.
        held: whether a person holds it open.
        window_calls: calls in the window of the rate rule, 0 without one.
        window_failures: failures among them.
        trips: how often it opened.
        recoveries: how often trial calls closed it.
        refused: calls refused so far.
        time_in_open_state: seconds spent open so far, the present opening included.
    """

    state: CircuitState
    failure_count: int
    next_attempt_at: float | None
    opened_at: float | None
    held: bool
    window_calls: int
    window_failures: int
    trips: int
    recoveries: int
    refused: int
    time_in_open_state: float


class CircuitBreaker:
    """Stop calling what keeps failing, and find out with a few trial calls whether it is back.

    Thread-safe, and shared by threads and tasks alike.

    Args:
        policy: when to open, for how long, how to try again.
        name: what it protects, for errors and events.
        clock: where time comes from.
        listeners: called at every change of state.
    """

    def __init__(
        self,
        policy: BreakerPolicy | None = None,
        *,
        name: str = "breaker",
        clock: Clock = SYSTEM_CLOCK,
        listeners: Iterable[Listener] = (),
    ) -> None:
        checks.instance("policy", policy, BreakerPolicy, optional=True)
        checks.label("name", name)
        self.policy = policy or BreakerPolicy()
        self.name = name
        self._clock = checks.clock("clock", clock)
        self._listeners = checks.callables("listeners", listeners)
        self._lock = RLock()
        self._window = window_for(self.policy)
        self._trips = 0
        self._recoveries = 0
        self._refused = 0
        self._open_since: float | None = None
        self._left_open_total = 0.0
        self._adopt(Circuit())

    def _adopt(self, circuit: Circuit) -> None:
        """Take over `circuit`, and what the hot path reads of it without the lock.

        A caller reads `permit` before `closed`, and they are written in the same order: one that
        sees a closed circuit holds its permit, or one that counts for nothing: an older one has
        another generation, and one of the circuit that is just opening has no trial's place.
        `quiet` says that a success would change nothing.
        """
        permit = Permit(circuit.generation)
        closed = circuit.state is CircuitState.CLOSED
        # Without a call in between, so no interruption can leave one of them behind.
        self._circuit = circuit
        self.permit = permit
        self.closed = closed
        self.quiet = closed and not circuit.streak and self._window is None

    # -- the protocol of one call: try_acquire, then exactly one of the three endings ----------

    def try_acquire(self) -> Permit | None:
        """Return a permit for one call; None means refused."""
        permit = self.permit
        if self.closed:
            return permit
        with self._lock:
            before = self._circuit
            circuit, granted = transitions.admit(before, self.policy, self._clock.monotonic())
            self._change(before, circuit)
        self._notify(before, circuit)
        return granted

    def record_success(self, permit: Permit) -> None:
        """End the call under `permit` as a success."""
        if self.quiet:
            return
        with self._lock:
            before = self._circuit
            now = self._clock.monotonic()
            passed = self._count(permit, failed=False, now=now)
            if before.state is CircuitState.CLOSED and not before.streak and not passed:
                return
            circuit = transitions.succeed(before, self.policy, permit, now, rate_passed=passed)
            self._change(before, circuit)
        self._notify(before, circuit)

    def record_failure(self, permit: Permit) -> None:
        """End the call under `permit` as a failure of what it protects."""
        with self._lock:
            before = self._circuit
            now = self._clock.monotonic()
            passed = self._count(permit, failed=True, now=now)
            circuit = transitions.fail(before, self.policy, permit, now, rate_passed=passed)
            self._change(before, circuit)
        self._notify(before, circuit)

    def release_permit(self, permit: Permit) -> None:
        """End the call under `permit` as neither: cancelled, or an error that does not count."""
        if permit.trial is None:
            return
        with self._lock:
            self._change(self._circuit, transitions.release_permit(self._circuit, permit))

    def record_error(self, permit: Permit, error: BaseException, *, counts: bool) -> None:
        """End the call under `permit` with `error`; `counts` is the categoriser's verdict."""
        if counts and not isinstance(error, self.policy.exclude):
            self.record_failure(permit)
        else:
            self.release_permit(permit)

    # -- whole calls ---------------------------------------------------------------------------

    def call(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking operation, or raise a `CircuitOpenError`: the breaker refused it."""
        permit = self._acquire(operation)
        try:
            value = operation(*args, **kwargs)
            checks.refuse_coroutine(value)
        except BaseException as error:
            self._record_raised(permit, error)
            raise
        self.record_success(permit)
        return value

    async def acall(
        self, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an asynchronous operation, or raise a `CircuitOpenError`: the breaker refused it."""
        permit = self._acquire(operation)
        try:
            awaitable = operation(*args, **kwargs)
            checks.require_awaitable(awaitable)
            value = await awaitable
        except BaseException as error:
            self._record_raised(permit, error)
            raise
        self.record_success(permit)
        return value

    def refuses(self) -> bool:
        """Return whether it would refuse a call now; asking takes no place and counts nothing."""
        if self.closed:
            return False
        _, granted = transitions.admit(self._circuit, self.policy, self._clock.monotonic())
        return granted is None

    def refuses_until(self, moment: float) -> bool:
        """Return whether it lets nothing through before `moment`, in monotonic seconds."""
        circuit = self._circuit
        if circuit.state is not CircuitState.OPEN:
            return False
        return circuit.open_until is None or circuit.open_until > moment

    def refusal(self) -> CircuitOpenError:
        """Make the error for a refused call, and count the call as refused."""
        with self._lock:
            self._refused += 1
        return CircuitOpenError(self.name, self.snapshot().next_attempt_at)

    def _acquire(self, operation: object) -> Permit:
        checks.function("operation", operation)
        permit = self.try_acquire()
        if permit is None:
            raise self.refusal()
        return permit

    def _record_raised(self, permit: Permit, error: BaseException) -> None:
        counts = (
            isinstance(error, Exception) and diagnose(error, wall_now=self._clock.wall()).counts
        )
        self.record_error(permit, error, counts=counts)

    # -- by hand -------------------------------------------------------------------------------

    def reset(self) -> None:
        """Close the circuit and forget all counts. Calls under way no longer matter to it."""
        self._move_by_hand(Cause.RESET)

    def hold(self) -> None:
        """Keep the circuit open until `release` or `reset`."""
        self._move_by_hand(Cause.HOLD)

    def release(self) -> None:
        """End a hold: trial calls are let through. Does nothing while the circuit is not open."""
        self._move_by_hand(Cause.RELEASE)

    def judge_by(self, policy: BreakerPolicy) -> None:
        """Use another policy from now on: counts are reset, an open circuit stays open."""
        checks.instance("policy", policy, BreakerPolicy)
        with self._lock:
            self.policy = policy
            self._window = window_for(policy)
            circuit = self._circuit
            generation = circuit.generation + 1
            self._adopt(replace(circuit, generation=generation, streak=0, successes=0, trials=()))

    @property
    def state(self) -> CircuitState:
        """The state as of now."""
        return transitions.state_at(self._circuit, self._clock.monotonic())

    def snapshot(self) -> CircuitSnapshot:
        """Return everything there is to know about the breaker now."""
        with self._lock:
            circuit, now = self._circuit, self._clock.monotonic()
            to_wall = self._clock.wall() - now
            calls, failures = (0, 0) if self._window is None else self._window.totals(now)
            return CircuitSnapshot(
                state=transitions.state_at(circuit, now),
                failure_count=circuit.streak,
                next_attempt_at=_shifted(circuit.open_until, to_wall),
                opened_at=_shifted(circuit.opened_at, to_wall),
                held=circuit.held,
                window_calls=calls,
                window_failures=failures,
                trips=self._trips,
                recoveries=self._recoveries,
                refused=self._refused,
                time_in_open_state=self._time_open(now),
            )

    def _move_by_hand(self, cause: Cause) -> None:
        with self._lock:
            before = self._circuit
            if (before.state, cause) not in transitions.MOVES:
                return
            circuit = transitions.move(before, cause, self.policy, self._clock.monotonic())
            self._change(before, circuit)
        self._notify(before, circuit)

    # -- under the lock ------------------------------------------------------------------------

    def _count(self, permit: Permit, *, failed: bool, now: float) -> bool:
        """Put one outcome into the window; return whether the rate rule opens the circuit."""
        window = self._window
        if window is None or permit.generation != self._circuit.generation:
            return False
        window.record(failed, now)
        return self.policy.rate_passed(*window.totals(now))

    def _change(self, before: Circuit, after: Circuit) -> None:
        if after is before:
            return
        if after.generation != before.generation:
            self._account(before, after)
            if self._window is not None:
                self._window.clear()
        self._adopt(after)

    def _account(self, before: Circuit, after: Circuit) -> None:
        now = self._clock.monotonic()
        if before.state is CircuitState.OPEN:
            self._left_open_total = self._time_open(now)
            self._open_since = None
        if after.state is CircuitState.OPEN:
            self._open_since = now
            self._trips += before.state is not CircuitState.OPEN
        self._recoveries += after.cause is Cause.TRIALS_SUCCEEDED

    def _time_open(self, now: float) -> float:
        """Seconds spent open; an opening ends when its time is over, not when the state is read."""
        if self._open_since is None:
            return self._left_open_total
        until = self._circuit.open_until
        end = now if until is None else min(now, until)
        return self._left_open_total + max(0.0, end - self._open_since)

    # -- outside the lock ----------------------------------------------------------------------

    def _notify(self, before: Circuit, after: Circuit) -> None:
        if after.state is before.state:
            return
        level = logging.WARNING if after.state is CircuitState.OPEN else logging.INFO
        _log.log(
            level, "circuit %s: %s -> %s, %s", self.name, before.state, after.state, after.cause
        )
        notify(
            self._listeners, BreakerChanged(self.name, before.state, after.state, str(after.cause))
        )


def _shifted(moment: float | None, by: float) -> float | None:
    return None if moment is None else moment + by
