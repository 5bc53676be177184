"""What the calls of one name share, and the context in which one call runs inside another."""

import logging
import sys
from contextvars import ContextVar
from random import Random
from typing import Literal

from holdfast.clock import Clock
from holdfast.events import Event, Listener, NestedGuardFound, notify
from holdfast.resilience.breaker.breaker import CircuitBreaker
from holdfast.resilience.limits import (
    MAX_ABANDONED,
    AbandonedThreads,
    ConcurrencyGate,
    RateLimiter,
    RetryBudgetMeter,
)
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy
from holdfast.resilience.stats import OperationStats

Nested = Literal["collapse", "allow"]

_log = logging.getLogger("holdfast.retry")


_NEVER_OPENS = BreakerPolicy(consecutive_failures=sys.maxsize)
"""For names without a breaker of their own: it never opens by itself, but can be held by hand."""


class Operation:
    """What all calls under one name share, whichever policy they come with."""

    __slots__ = (
        "abandoned",
        "breaker",
        "budget",
        "clock",
        "gate",
        "listeners",
        "name",
        "rate",
        "reported",
        "stats",
    )

    def __init__(
        self,
        name: str,
        clock: Clock,
        listeners: tuple[Listener, ...],
        max_abandoned: int = MAX_ABANDONED,
    ) -> None:
        self.name = name
        self.abandoned = AbandonedThreads(max_abandoned)
        self.clock = clock
        self.listeners = listeners
        self.stats = OperationStats()
        self.breaker = CircuitBreaker(_NEVER_OPENS, name=name, clock=clock, listeners=listeners)
        self.budget: RetryBudgetMeter | None = None
        self.rate: RateLimiter | None = None
        self.gate: ConcurrencyGate | None = None
        self.reported: dict[str, object] = {}

    def adopt(self, policy: RetryPolicy) -> bool:
        """Make what `policy` needs and is not there yet; say whether a limit is new.

        A limit holds for all calls of the name, those under policies that do not speak of it too.

        Raises:
            ValueError: the name is already used with a different limit of the same sort, so one
                of the two would silently not hold.
        """
        own_breaker = None if self.breaker.policy is _NEVER_OPENS else self.breaker.policy
        self._agree("breaker", own_breaker, policy.breaker)
        self._agree("budget", self.budget and self.budget.budget, policy.budget)
        self._agree("rate", self.rate and self.rate.limit, policy.rate)
        self._agree("concurrency", self.gate and self.gate.limit, policy.concurrency)
        # Only now, as a policy that is refused must leave nothing behind.
        if policy.breaker is not None and own_breaker is None:
            self.breaker.judge_by(policy.breaker)
        limits = (self.budget, self.rate, self.gate)
        if policy.budget is not None and self.budget is None:
            self.budget = RetryBudgetMeter(policy.budget)
        if policy.rate is not None and self.rate is None:
            self.rate = RateLimiter(policy.rate)
        if policy.concurrency is not None and self.gate is None:
            self.gate = ConcurrencyGate(policy.concurrency)
        return limits != (self.budget, self.rate, self.gate)

    def _agree(self, field: str, there: object, asked: object) -> None:
        if there is not None and asked is not None and there != asked:
            raise ValueError(
                f"{field} of {self.name!r} is already {there!r}, got {asked!r}: calls of one name "
                "share it, so use the same value or another name"
            )


class Guard:
    """One policy bound to one name: everything that a call needs, looked up once."""

    __slots__ = (
        "abandoned",
        "breaker",
        "budget",
        "clock",
        "first_tries",
        "gate",
        "listeners",
        "name",
        "nested",
        "plain",
        "policy",
        "rate",
        "reported",
        "rng",
        "stats",
    )

    def __init__(
        self, operation: Operation, policy: RetryPolicy, *, rng: Random, nested: Nested
    ) -> None:
        self.name = operation.name
        self.policy = policy
        self.clock = operation.clock
        self.listeners = operation.listeners
        self.rng = rng
        self.nested = nested
        self.stats = operation.stats
        self.first_tries = operation.stats.first_tries
        self.breaker = operation.breaker
        self.budget = operation.budget
        self.rate = operation.rate
        self.gate = operation.gate
        self.abandoned = operation.abandoned
        self.reported = operation.reported
        # A plain guard's first attempt needs no timer, no turn and no accounting beforehand.
        self.plain = not self.listeners and all(
            part is None
            for part in (policy.attempt_timeout, policy.deadline, self.budget, self.rate, self.gate)
        )

    def tell(self, event: Event) -> None:
        """Tell the listeners of `event`."""
        notify(self.listeners, event)

    def attempts_inside(self, outer: "Frame | None") -> int:
        """Return the attempts allowed to a call that runs inside `outer`'s attempt.

        Where a call around it retries too, attempts would multiply: the inner call is kept to
        one, and its error is left to the outer one.
        """
        allowed = self.policy.max_attempts
        retrier = None if outer is None else outer.retrier
        if retrier is None or allowed == 1:
            return allowed
        collapsed = self.nested == "collapse"
        self._report(retrier.name, collapsed=collapsed)
        return 1 if collapsed else allowed

    def deadline_at(self, started: float, outer: "Frame | None") -> float | None:
        """Return when a call started inside `outer` must end: its own deadline or the outer one."""
        inherited = None if outer is None else outer.deadline_on(self.clock)
        if self.policy.deadline is None:
            return inherited
        own = started + self.policy.deadline
        return own if inherited is None else min(own, inherited)

    def _report(self, outer: str, *, collapsed: bool) -> None:
        mine = object()
        if self.reported.setdefault(outer, mine) is not mine:
            return
        consequence = "kept to one attempt" if collapsed else "attempts multiply"
        _log.warning("guard %s runs inside guard %s: %s", self.name, outer, consequence)
        self.tell(NestedGuardFound(self.name, outer=outer, collapsed=collapsed))


class Frame:
    """One guarded call under way, as calls inside its attempts see it.

    `guard` is None once the call has ended: a task that outlives it is no longer inside. This one
    is the frame of a plain call, made for every one of them, and has no constructor for the sake
    of speed; `LimitedFrame` is that of all others.
    """

    __slots__ = ("guard",)

    guard: Guard | None

    @property
    def under_way(self) -> bool:
        """Whether the call has begun and not ended."""
        return getattr(self, "guard", None) is not None

    @property
    def retrier(self) -> Guard | None:
        """The guard that would repeat what runs inside; None where none would."""
        guard = self.guard
        return None if guard is None or guard.policy.max_attempts == 1 else guard

    def deadline_on(self, clock: Clock) -> float | None:  # noqa: ARG002 - a plain call has none
        """Return when the call must end, on the monotonic `clock`; None where it need not."""
        return None

    def runs(self, stats: OperationStats) -> bool:
        """Say whether this call, or one around it, is of the name that `stats` belong to."""
        return self.guard is not None and self.guard.stats is stats


class LimitedFrame(Frame):
    """The frame of a call that has a deadline, runs inside another, or is not plain otherwise."""

    __slots__ = ("_outer", "attempts", "deadline_at", "within_own")

    def __init__(self, guard: Guard, started: float, outer: Frame | None) -> None:
        self.guard = guard
        self.attempts = guard.attempts_inside(outer)
        self.deadline_at = guard.deadline_at(started, outer)
        self.within_own = outer is not None and outer.runs(guard.stats)
        self._outer = outer

    def end(self) -> None:
        """Mark the call as ended; what it ran in is let go."""
        self.guard = None
        self._outer = None
        self.deadline_at = None

    @property
    def retrier(self) -> Guard | None:
        """The guard that would repeat what runs inside: this call's, or one further out."""
        if self.attempts > 1 and self.guard is not None:
            return self.guard
        return None if self._outer is None else self._outer.retrier

    def deadline_on(self, clock: Clock) -> float | None:
        """Return when the call must end, on the monotonic `clock`; None where it need not.

        Moments of one clock mean nothing on another: there only calls further out have a say.
        """
        if self.guard is not None and self.guard.clock is clock:
            return self.deadline_at
        return None if self._outer is None else self._outer.deadline_on(clock)

    def runs(self, stats: OperationStats) -> bool:
        """Say whether this call, or one around it, is of the name that `stats` belong to."""
        return super().runs(stats) or (self._outer is not None and self._outer.runs(stats))


ACTIVE: ContextVar[Frame | None] = ContextVar("holdfast_active_call", default=None)
"""The innermost guarded call that the current code runs in."""


def outside_calls(listener: Listener) -> Listener:
    """Let `listener` run outside of the call that it hears of: its own calls are not nested."""

    def told(event: Event) -> None:
        token = ACTIVE.set(None)
        try:
            listener(event)
        finally:
            ACTIVE.reset(token)

    return told
