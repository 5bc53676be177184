"""The decisions of one guarded call, without doing any of it.

`Call.steps` is a generator: it yields what to do next (a wait, a turn to wait for, an attempt to
make), is sent the outcome, and returns the result. The drivers for blocking and asynchronous
operations only carry the steps out, so both behave alike.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from holdfast.errors import (
    AbandonedLimitError,
    AttemptTimeout,
    Category,
    ConcurrencyLimitError,
    DeadlineExceeded,
    RateLimitedError,
)
from holdfast.events import AttemptFailed, CallFinished
from holdfast.resilience.breaker.transitions import Permit
from holdfast.resilience.diagnosis import Diagnosis
from holdfast.resilience.guard import Guard
from holdfast.resilience.limits import ConcurrencyGate, RateLimiter
from holdfast.resilience.policy import ExternalRate
from holdfast.resilience.policy_diagnosis import diagnose_under
from holdfast.resilience.result import Ended, FailedAttempt, RetryResult, StopReason
from holdfast.time_limit import cancelled

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GateTurn:
    """Wait at most `seconds` (None: for ever) for a turn; reply whether it came."""

    gate: ConcurrencyGate
    holder: object
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Reserve:
    """Take a place in a rate that is counted elsewhere, and reply with the seconds to wait for it.

    `longest` is the longest wait, `seconds` how long the answer may take (None: for ever).
    """

    rate: ExternalRate
    longest: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class AttemptStep:
    """Run the operation, cut it after `seconds` (None: never); reply with its result."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Stop:
    """The decision not to try again: why, and when it would make sense to, in epoch seconds."""

    reason: StopReason
    retry_at: float | None = None


@dataclass(slots=True)
class AttemptResult(Generic[T]):
    """How an attempt ended: a value, an error, or cut off by its time limit."""

    value: T | None = None
    error: Exception | None = None
    cut: bool = False


Step: TypeAlias = Pause | GateTurn | Reserve | AttemptStep
Reply: TypeAlias = AttemptResult[Any] | bool | None
Steps: TypeAlias = Generator[Step, Reply, RetryResult[T]]


class Call(Generic[T]):
    """One guarded call from its first failure, or from its start where the guard is not plain.

    Args:
        guard: the policy and what it shares with other calls of its name.
        started: when the call began, in monotonic seconds.
        max_attempts: attempts allowed in all.
        deadline_at: when the call must end, in monotonic seconds; None where it need not.
        within_own: whether it runs inside an attempt of its own name, whose turn and permit it
            shares: waiting for itself would never end.
        blocking: whether its attempts block a thread, and leave it behind when they are cut off.
    """

    def __init__(
        self,
        guard: Guard,
        started: float,
        max_attempts: int,
        deadline_at: float | None = None,
        *,
        within_own: bool = False,
        blocking: bool = False,
    ) -> None:
        self._guard = guard
        self._clock = guard.clock
        self._max_attempts = max_attempts
        self._deadline_at = deadline_at
        self._started = started
        self._attempts = 0
        self._history: list[FailedAttempt] = []
        self._permit: Permit | None = None
        self._within_own = within_own
        self._blocking = blocking
        self._start_reserved: float | None = None

    def steps(self) -> Steps[T]:
        """Yield what to do until the call ends, and return its result."""
        if self._guard.budget is not None:
            self._guard.budget.count_call(self._started)
        return (yield from self._loop(None))

    def steps_after(self, error: Exception, permit: Permit) -> Steps[T]:
        """Go on from a first attempt that was made outside and raised `error`."""
        self._permit = permit
        self._attempts = 1
        return (yield from self._loop(self._judge(AttemptResult(error=error), self._started, None)))

    def _loop(self, verdict: "float | RetryResult[T] | None") -> Steps[T]:
        try:
            while True:
                if isinstance(verdict, RetryResult):
                    return verdict
                if verdict is not None:
                    yield Pause(verdict)
                refusal = yield from self._admit()
                if refusal is not None:
                    return refusal
                self._start_reserved = None
                self._attempts += 1
                began = self._clock.monotonic()
                limit = self._limit(began)
                outcome = yield AttemptStep(limit)
                assert isinstance(outcome, AttemptResult)
                if outcome.error is None and not outcome.cut:
                    unwanted = self._examine(outcome.value)
                    if unwanted is None:
                        return self._succeed(outcome.value)
                    outcome = AttemptResult(error=unwanted)
                verdict = self._judge(outcome, began, limit)
        finally:
            self._release()

    # -- before an attempt ---------------------------------------------------------------------

    def _admit(self) -> Generator[Step, Reply, RetryResult[T] | None]:
        """Pass all limits, the breaker last; return the result where one refuses."""
        guard, breaker = self._guard, self._guard.breaker
        if not self._within_own and breaker.refuses():
            # Asked first, too: a call that will be refused must not wait for a turn or use up rate.
            return self._refused_by_breaker()
        if self._blocking and guard.abandoned.full and self._limit(self._started) is not None:
            return self._refused_by_abandoned()
        gate = None if self._within_own else guard.gate
        if gate is not None and not gate.try_enter(self):
            granted = yield GateTurn(gate, self, self._longest_turn(gate))
            if not granted:
                return self._refused_by_gate(gate)
        if self._remaining(self._clock.monotonic()) <= 0:
            return self._stop(StopReason.DEADLINE, self._deadline_error())
        if guard.rate is not None:
            # After the turn: a start that then had to wait would come later than it was charged.
            wait = yield from self._reserve_start(guard.rate)
            if isinstance(wait, RetryResult):
                return wait
            if wait > 0:
                yield Pause(wait)
        self._permit = breaker.permit if self._within_own else breaker.try_acquire()
        return self._refused_by_breaker() if self._permit is None else None

    def _reserve_start(
        self, rate: RateLimiter | ExternalRate
    ) -> Generator[Step, Reply, float | RetryResult[T]]:
        """Return the seconds to wait for a place in the rate, or the result if it has none."""
        now = self._clock.monotonic()
        remaining = self._remaining(now)
        longest = min(float(self._guard.policy.backoff.cap), remaining)
        if isinstance(rate, RateLimiter):
            wait = rate.reserve(now, longest)
            if wait <= longest:
                self._start_reserved = now + wait
        else:
            limit = None if self._deadline_at is None else remaining
            outcome = yield Reserve(rate, longest, limit)
            assert isinstance(outcome, AttemptResult)
            if outcome.cut:
                return self._stop(StopReason.DEADLINE, self._deadline_error())
            if outcome.error is not None:
                # Whether there is a place is not known, so the attempt is not made.
                return self._stop(StopReason.RATE_LIMIT, self._last_error(outcome.error))
            wait = cast(float, outcome.value)
            remaining = self._remaining(self._clock.monotonic())
        return wait if wait <= longest and wait < remaining else self._refused_by_rate(wait)

    def _longest_turn(self, gate: ConcurrencyGate) -> float | None:
        limits = [gate.limit.max_wait]
        if self._deadline_at is not None:
            limits.append(max(0.0, self._remaining(self._clock.monotonic())))
        return min((limit for limit in limits if limit is not None), default=None)

    def _remaining(self, now: float) -> float:
        return float("inf") if self._deadline_at is None else self._deadline_at - now

    def _limit(self, now: float) -> float | None:
        timeout = self._guard.policy.attempt_timeout
        if self._deadline_at is None:
            return timeout
        remaining = self._deadline_at - now
        return remaining if timeout is None else min(timeout, remaining)

    def _refused_by_breaker(self) -> RetryResult[T]:
        refusal = self._guard.breaker.refusal()
        return self._stop(StopReason.BREAKER, self._last_error(refusal), retry_at=refusal.retry_at)

    def _refused_by_rate(self, wait: float) -> RetryResult[T]:
        retry_at = self._clock.wall() + wait
        fits_cap = wait <= self._guard.policy.backoff.cap
        reason = StopReason.DEADLINE if fits_cap else StopReason.RATE_LIMIT
        error = RateLimitedError(self._guard.name, retry_at)
        return self._stop(reason, self._last_error(error), retry_at=retry_at)

    def _refused_by_gate(self, gate: ConcurrencyGate) -> RetryResult[T]:
        if self._remaining(self._clock.monotonic()) <= 0:
            return self._stop(StopReason.DEADLINE, self._deadline_error())
        error = ConcurrencyLimitError(self._guard.name, gate.limit.limit)
        return self._stop(StopReason.CONCURRENCY, self._last_error(error))

    def _refused_by_abandoned(self) -> RetryResult[T]:
        error = AbandonedLimitError(self._guard.name, self._guard.abandoned.limit)
        return self._stop(StopReason.CONCURRENCY, self._last_error(error))

    def _last_error(self, otherwise: Exception) -> BaseException:
        """Prefer the downstream's last error over our own refusal."""
        return self._history[-1].error if self._history else otherwise

    def _deadline_error(self) -> BaseException:
        return self._last_error(DeadlineExceeded(self._guard.name, self._deadline_seconds()))

    def _deadline_seconds(self) -> float:
        return 0.0 if self._deadline_at is None else max(0.0, self._deadline_at - self._started)

    # -- after an attempt ----------------------------------------------------------------------

    def _examine(self, value: T | None) -> Exception | None:
        """Return why the policy does not take `value` as the result, or None."""
        try:
            self._guard.policy.check_result(value)
        except Exception as error:
            return error
        return None

    def _succeed(self, value: T | None) -> RetryResult[T]:
        self._guard.breaker.record_success(self._take_permit())
        return self._finish(StopReason.SUCCESS, value=value)

    def _judge(
        self, outcome: AttemptResult[T], began: float, limit: float | None
    ) -> float | RetryResult[T]:
        """Record a failed attempt; return the seconds to wait, or the result if it was the last."""
        now = self._clock.monotonic()
        error = outcome.error or self._cut_error(limit or 0.0, now)
        over = isinstance(error, DeadlineExceeded) and (outcome.cut or self._remaining(now) <= 0)
        guard = self._guard
        seen = diagnose_under(guard.policy, error, name=guard.name, wall_now=self._clock.wall())
        guard.stats.attempt_failed(permanent=seen.category is Category.PERMANENT)
        guard.breaker.record_error(self._take_permit(), error, counts=seen.counts)
        self._leave_gate()
        decision = Stop(StopReason.DEADLINE) if over else self._next(seen, now)
        delay = None if isinstance(decision, Stop) else decision
        self._history.append(
            FailedAttempt(self._attempts, error, seen.category, delay or 0.0, now - began)
        )
        if guard.listeners:
            guard.notify(
                AttemptFailed(guard.name, self._attempts, error, seen.category, now - began, delay)
            )
        if isinstance(decision, Stop):
            return self._stop(decision.reason, error, retry_at=decision.retry_at)
        return decision

    def _cut_error(self, limit: float, now: float) -> Exception:
        # By the limit and not by the clock alone: a timer may fire slightly early.
        timeout = self._guard.policy.attempt_timeout
        if timeout is None or limit < timeout or self._remaining(now) <= 0:
            return DeadlineExceeded(self._guard.name, self._deadline_seconds())
        return AttemptTimeout(self._guard.name, limit)

    def _next(self, seen: Diagnosis, now: float) -> float | Stop:
        """Decide what follows a failed attempt: the seconds until another one, or the end."""
        policy, guard = self._guard.policy, self._guard
        if seen.category is Category.PERMANENT:
            return Stop(StopReason.PERMANENT)
        if seen.ambiguous and not policy.idempotent:
            return Stop(StopReason.AMBIGUOUS)
        asked = seen.retry_after
        if self._attempts >= self._max_attempts:
            return Stop(StopReason.ATTEMPTS, self._wall_in(asked))
        delay = policy.backoff.delay(self._attempts, guard.rng)
        if asked is not None and asked > delay:
            if asked > policy.backoff.cap:
                return Stop(StopReason.RATE_LIMIT, self._wall_in(asked))
            delay = asked
        if delay >= self._remaining(now) or cancelled():
            return Stop(StopReason.DEADLINE, self._wall_in(delay))
        if guard.breaker.refuses_until(now + delay):
            return Stop(StopReason.BREAKER, guard.breaker.snapshot().next_attempt_at)
        if guard.budget is not None and not guard.budget.try_spend(now):
            return Stop(StopReason.BUDGET, self._wall_in(delay))
        return delay

    def _wall_in(self, seconds: float | None) -> float | None:
        return None if seconds is None else self._clock.wall() + seconds

    # -- the end -------------------------------------------------------------------------------

    def _stop(
        self, reason: StopReason, error: BaseException, *, retry_at: float | None = None
    ) -> RetryResult[T]:
        return self._finish(reason, error=error, retry_at=retry_at)

    def _finish(
        self,
        reason: StopReason,
        *,
        value: T | None = None,
        error: BaseException | None = None,
        retry_at: float | None = None,
    ) -> RetryResult[T]:
        guard = self._guard
        seconds = self._clock.monotonic() - self._started
        history = tuple(self._history)
        result = Ended(value, error, self._attempts, seconds, reason, history, retry_at)
        # Before listeners are called: one of them may need the turn of this call.
        self._release()
        exhausted = reason is StopReason.ATTEMPTS
        guard.stats.finished(seconds, self._attempts, ok=result.ok, exhausted=exhausted)
        if guard.listeners:
            guard.notify(CallFinished(guard.name, result.ok, self._attempts, seconds, reason))
        return result

    def _take_permit(self) -> Permit:
        """Return the permit of the attempt that has just ended; it is used up by that."""
        permit, self._permit = self._permit, None
        assert permit is not None
        return permit

    def _leave_gate(self) -> None:
        if self._guard.gate is not None:
            self._guard.gate.leave(self)

    def _release(self) -> None:
        """Release everything still held: the call ended, or its caller was cancelled."""
        try:
            if self._permit is not None:
                self._guard.breaker.release_permit(self._permit)
                self._permit = None
            if self._start_reserved is not None and isinstance(self._guard.rate, RateLimiter):
                self._guard.rate.release(self._start_reserved)
                self._start_reserved = None
        finally:
            self._leave_gate()
