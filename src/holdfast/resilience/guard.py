"""What the calls of one name share, and one policy bound to it."""

import sys
from random import Random
from typing import Literal

from holdfast.clock import Clock
from holdfast.events import Event, Listener, notify
from holdfast.resilience.breaker.breaker import CircuitBreaker
from holdfast.resilience.limits import (
    MAX_ABANDONED,
    AbandonedThreads,
    ConcurrencyGate,
    RateLimiter,
    RetryBudgetMeter,
)
from holdfast.resilience.policy import BreakerPolicy, ExternalRate, RateLimit, RetryPolicy
from holdfast.resilience.stats import OperationStats

Nested = Literal["collapse", "allow"]

_NEVER_OPENS = BreakerPolicy(consecutive_failures=sys.maxsize)
"""For names without a breaker of their own: it never opens by itself, but can be held by hand."""


class Operation:
    """What all calls under one name share, whichever policy they come with."""

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
        self.rate: RateLimiter | ExternalRate | None = None
        self.gate: ConcurrencyGate | None = None
        self.reported: dict[str, object] = {}

    def adopt(self, policy: RetryPolicy) -> bool:
        """Make what `policy` needs and is not there yet; return whether a limit is new.

        A limit holds for all calls of the name, those under policies that do not speak of it too.

        Raises:
            ValueError: the name is already used with a different limit of the same sort, so one
                of the two would silently not hold.
        """
        own_breaker = None if self.breaker.policy is _NEVER_OPENS else self.breaker.policy
        self._agree("breaker", own_breaker, policy.breaker)
        self._agree("budget", self.budget and self.budget.budget, policy.budget)
        own_rate = self.rate.limit if isinstance(self.rate, RateLimiter) else self.rate
        self._agree("rate", own_rate, policy.rate)
        self._agree("concurrency", self.gate and self.gate.limit, policy.concurrency)
        # Only now, as a policy that is refused must leave nothing behind.
        if policy.breaker is not None and own_breaker is None:
            self.breaker.judge_by(policy.breaker)
        limits = (self.budget, self.rate, self.gate)
        if policy.budget is not None and self.budget is None:
            self.budget = RetryBudgetMeter(policy.budget)
        if policy.rate is not None and self.rate is None:
            rate = policy.rate
            self.rate = RateLimiter(rate) if isinstance(rate, RateLimit) else rate
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

    def __init__(
        self, operation: Operation, policy: RetryPolicy, *, rng: Random, nested: Nested
    ) -> None:
        self.name = operation.name
        self.policy = policy
        self.clock = operation.clock
        self.monotonic = operation.clock.monotonic
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
        # A plain guard's first attempt needs no timer, no turn and no accounting beforehand, and
        # its result is not looked at.
        self.plain = not self.listeners and all(
            part is None
            for part in (
                policy.attempt_timeout,
                policy.deadline,
                policy.retry_result,
                self.budget,
                self.rate,
                self.gate,
            )
        )

    def notify(self, event: Event) -> None:
        """Pass `event` to the listeners."""
        notify(self.listeners, event)
