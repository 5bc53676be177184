"""The breaker against a plain model of it, step by step through random histories."""

from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from holdfast.resilience.breaker.breaker import CircuitBreaker
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing import VirtualClock


@dataclass
class _Leave:
    """The model's permit: its phase, and whether it is a trial."""

    phase: object
    expires_at: float | None


@dataclass
class _Model:
    """A breaker written for clarity alone."""

    policy: BreakerPolicy
    state: str = "CLOSED"
    phase: object = field(default_factory=object)
    streak: int = 0
    open_until: float | None = None
    successes: int = 0
    places: list[_Leave] = field(default_factory=list)
    window: deque[bool] = field(default_factory=deque)
    trips: int = 0
    recoveries: int = 0

    def enter(self, state: str, open_until: float | None = None) -> None:
        self.trips += state == "OPEN" != self.state
        self.state, self.phase, self.open_until = state, object(), open_until
        self.successes, self.places = 0, []
        self.window = deque(maxlen=self.policy.window_calls)
        if state == "CLOSED":
            self.streak = 0

    def state_at(self, now: float) -> str:
        cooled = self.state == "OPEN" and self.open_until is not None and now >= self.open_until
        return "HALF_OPEN" if cooled else self.state

    def acquire(self, now: float) -> _Leave | None:
        if self.state == "CLOSED":
            return _Leave(self.phase, None)
        if self.state_at(now) == "OPEN":
            return None
        if self.state == "OPEN":
            self.enter("HALF_OPEN")
        alive = [leave for leave in self.places if leave.expires_at > now]  # type: ignore[operator]
        if len(alive) + self.successes >= self.policy.trial_calls:
            return None
        leave = _Leave(self.phase, now + self.policy.trial_lifetime)
        self.places = [*alive, leave]
        return leave

    def counts(self, leave: _Leave) -> bool:
        if leave.phase is not self.phase:
            return False
        return self.state == "CLOSED" or any(leave is place for place in self.places)

    def passes(self) -> bool:
        rate = self.policy.failure_rate
        if rate is None or len(self.window) < self.policy.judged_from:
            return False
        share = sum(self.window) / len(self.window)
        return share >= rate if self.policy.rate_rule == "at_least" else share > rate

    def succeed(self, leave: _Leave, now: float) -> None:
        if not self.counts(leave):
            return
        if self.state == "CLOSED":
            self.streak = 0
            self.window.append(False)
            if self.passes():
                self.enter("OPEN", now + self.policy.open_for)
            return
        self.release_permit(leave)
        self.successes += 1
        if self.successes >= self.policy.trial_calls:
            self.enter("CLOSED")
            self.recoveries += 1

    def fail(self, leave: _Leave, now: float) -> None:
        if not self.counts(leave):
            return
        self.streak += 1
        self.window.append(True)
        limit = self.policy.consecutive_failures
        by_streak = limit is not None and self.streak >= limit
        if self.state == "HALF_OPEN" or by_streak or self.passes():
            self.enter("OPEN", now + self.policy.open_for)

    def release_permit(self, leave: _Leave) -> None:
        if self.counts(leave):
            self.places = [place for place in self.places if place is not leave]


class BreakerAgainstModel(RuleBasedStateMachine):
    permits = Bundle("permits")

    @initialize(
        streak=st.none() | st.integers(1, 4),
        rate=st.none() | st.sampled_from([0.1, 0.25, 0.5, 0.9]),
        rule=st.sampled_from(["above", "at_least"]),
        window=st.integers(1, 6),
        minimum=st.integers(1, 6),
        trials=st.integers(1, 3),
        patience=st.none() | st.sampled_from([3.0, 20.0]),
    )
    def build(self, streak, rate, rule, window, minimum, trials, patience):
        if streak is None and rate is None:
            streak = 2
        policy = BreakerPolicy(
            consecutive_failures=streak,
            failure_rate=rate,
            rate_rule=rule,
            window_calls=window,
            minimum_calls=min(minimum, window),
            open_for=10,
            trial_calls=trials,
            trial_timeout=patience,
        )
        self.clock = VirtualClock()
        self.breaker = CircuitBreaker(policy, clock=self.clock)
        self.model = _Model(policy, window=deque(maxlen=window))

    @rule(target=permits)
    def acquire(self):
        permit, leave = self.breaker.try_acquire(), self.model.acquire(self.clock.monotonic())
        assert (permit is None) == (leave is None)
        return permit, leave

    @rule(pair=permits)
    def succeed(self, pair):
        permit, leave = pair
        if permit is not None:
            self.breaker.record_success(permit)
            self.model.succeed(leave, self.clock.monotonic())

    @rule(pair=permits)
    def fail(self, pair):
        permit, leave = pair
        if permit is not None:
            self.breaker.record_failure(permit)
            self.model.fail(leave, self.clock.monotonic())

    @rule(pair=permits)
    def release_permit(self, pair):
        permit, leave = pair
        if permit is not None:
            self.breaker.release_permit(permit)
            self.model.release_permit(leave)

    @rule(seconds=st.sampled_from([0.5, 2.0, 3.0, 10.0, 1000.0]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def hold(self):
        self.breaker.hold()
        self.model.enter("OPEN", None)

    @rule()
    def release(self):
        self.breaker.release()
        if self.model.state == "OPEN":
            self.model.enter("HALF_OPEN")

    @rule()
    def reset(self):
        self.breaker.reset()
        self.model.enter("CLOSED")

    @invariant()
    def they_agree(self):
        if not hasattr(self, "model"):
            return
        snapshot, now = self.breaker.snapshot(), self.clock.monotonic()
        assert snapshot.state == self.model.state_at(now)
        assert self.breaker.state is snapshot.state
        assert snapshot.failure_count == self.model.streak
        assert (snapshot.trips, snapshot.recoveries) == (self.model.trips, self.model.recoveries)
        if snapshot.state is CircuitState.CLOSED and self.model.policy.failure_rate is not None:
            found = (snapshot.window_calls, snapshot.window_failures)
            assert found == (len(self.model.window), sum(self.model.window))
        until = self.model.open_until
        expected = None if until is None else until + self.clock.wall() - now
        assert snapshot.next_attempt_at == expected


BreakerAgainstModel.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestBreakerAgainstModel = BreakerAgainstModel.TestCase
