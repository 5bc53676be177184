"""The guarded call that the current code runs in, as the calls inside its attempts see it."""

import logging
from contextvars import ContextVar, Token
from typing import Any, TypeVar

from holdfast.clock import Clock
from holdfast.events import Event, Listener, NestedGuardFound
from holdfast.resilience import checks
from holdfast.resilience.breaker.transitions import Permit
from holdfast.resilience.call import Call, Steps
from holdfast.resilience.guard import Guard
from holdfast.resilience.limits import AbandonedThreads
from holdfast.resilience.result import FirstTry, RetryResult
from holdfast.resilience.stats import FOLD_AT, OperationStats

T = TypeVar("T")

_log = logging.getLogger("holdfast.retry")


class ActiveCall:
    """One guarded call under way; of this very class where its first attempt is a plain one.

    Such a call has no time limit, no call around it and nothing to wait for. It is made for every
    successful call, so it has no constructor for the sake of speed.

    Attributes:
        guard: its policy and what it shares with others; None once the call has ended, since a
            task that outlives it is no longer inside.
        outer: the call around it.
        permit: the breaker's, for the plain first attempt.
        started: when the call began, in monotonic seconds.
        steps: what to do; None for a plain first attempt.
    """

    __slots__ = ("guard", "outer", "permit", "started", "steps")

    guard: Guard | None
    outer: "ActiveCall | None"
    permit: Permit
    started: float
    steps: Steps[Any] | None

    @property
    def under_way(self) -> bool:
        """Whether the call has not ended."""
        return self.guard is not None

    @property
    def retrier(self) -> Guard | None:
        """The guard that would repeat what runs inside; None where none would."""
        guard = self.guard
        return None if guard is None or guard.policy.max_attempts == 1 else guard

    @property
    def abandoned(self) -> AbandonedThreads:
        """The threads that blocking attempts of its name have left."""
        assert self.guard is not None
        return self.guard.abandoned

    def deadline_on(self, clock: Clock) -> float | None:  # noqa: ARG002 - a plain call has none
        """Return when the call must end, on the monotonic `clock`; None where it need not."""
        return None

    def runs(self, stats: OperationStats) -> bool:
        """Return whether this call, or one around it, is of the name that `stats` belong to."""
        return self.guard is not None and self.guard.stats is stats

    def restore_outer(self, token: "Token[ActiveCall | None] | None") -> None:
        """Make the call around this one the active one again, and release it."""
        self.outer = None
        if token is not None:
            ACTIVE.reset(token)

    def succeeded(self, value: T) -> RetryResult[T]:
        """Record the success of the plain first attempt, and return the result."""
        guard = self.guard
        assert guard is not None
        if not guard.breaker.quiet:
            guard.breaker.record_success(self.permit)
        total_time = guard.monotonic() - self.started
        first_tries = guard.first_tries
        first_tries.append(total_time)
        if len(first_tries) >= FOLD_AT:
            guard.stats.fold()
        result: FirstTry[T] = FirstTry()
        result.value = value
        result.total_time = total_time
        return result

    def failed(self, error: Exception, operation: object) -> Steps[Any]:
        """Return the steps that follow the failure of the plain first attempt."""
        checks.function("operation", operation)
        assert self.guard is not None
        call: Call[Any] = Call(self.guard, self.started, self.guard.policy.max_attempts)
        return call.steps_after(error, self.permit)


class LimitedCall(ActiveCall):
    """A call that has a deadline, runs inside another, or needs more than a plain first attempt."""

    __slots__ = ("attempts", "deadline_at")

    def __init__(
        self, guard: Guard, started: float, outer: ActiveCall | None, *, blocking: bool
    ) -> None:
        self.guard = guard
        self.outer = outer
        self.started = started
        self.attempts = _attempts_inside(guard, outer)
        self.deadline_at = _deadline_inside(guard, started, outer)
        call: Call[Any] = Call(
            guard,
            started,
            self.attempts,
            self.deadline_at,
            within_own=outer is not None and outer.runs(guard.stats),
            blocking=blocking,
        )
        self.steps = call.steps()

    @property
    def retrier(self) -> Guard | None:
        """The guard that would repeat what runs inside: this call's, or one further out."""
        if self.attempts > 1 and self.guard is not None:
            return self.guard
        return None if self.outer is None else self.outer.retrier

    def deadline_on(self, clock: Clock) -> float | None:
        """Return when the call must end, on the monotonic `clock`; None where it need not.

        Moments of one clock mean nothing on another: there only calls further out count.
        """
        if self.guard is not None and self.guard.clock is clock:
            return self.deadline_at
        return None if self.outer is None else self.outer.deadline_on(clock)

    def runs(self, stats: OperationStats) -> bool:
        """Return whether this call, or one around it, is of the name that `stats` belong to."""
        return super().runs(stats) or (self.outer is not None and self.outer.runs(stats))


ACTIVE: ContextVar[ActiveCall | None] = ContextVar("holdfast_active_call", default=None)
"""The innermost guarded call that the current code runs in; one that has ended counts for nothing.

An outermost call stays here when it ends: to remove it would cost a tenth of a quick call.
"""


def outside_calls(listener: Listener) -> Listener:
    """Let `listener` run outside of the call whose event it takes: its own calls are not nested."""

    def listen(event: Event) -> None:
        token = ACTIVE.set(None)
        try:
            listener(event)
        finally:
            ACTIVE.reset(token)

    return listen


def _attempts_inside(guard: Guard, outer: ActiveCall | None) -> int:
    """Return the attempts allowed to a call of `guard` that runs inside an attempt of `outer`.

    Where a call around it retries too, attempts would multiply: the inner call is kept to one, and
    its error is left to the outer one.
    """
    allowed = guard.policy.max_attempts
    retrier = None if outer is None else outer.retrier
    if retrier is None or allowed == 1:
        return allowed
    collapsed = guard.nested == "collapse"
    _report_nesting(guard, retrier.name, collapsed=collapsed)
    return 1 if collapsed else allowed


def _deadline_inside(guard: Guard, started: float, outer: ActiveCall | None) -> float | None:
    """Return when a call started inside `outer` must end: its own deadline or the outer one."""
    inherited = None if outer is None else outer.deadline_on(guard.clock)
    if guard.policy.deadline is None:
        return inherited
    own = started + guard.policy.deadline
    return own if inherited is None else min(own, inherited)


def _report_nesting(guard: Guard, outer: str, *, collapsed: bool) -> None:
    mine = object()
    if guard.reported.setdefault(outer, mine) is not mine:
        return
    consequence = "kept to one attempt" if collapsed else "attempts multiply"
    _log.warning("guard %s runs inside guard %s: %s", guard.name, outer, consequence)
    guard.notify(NestedGuardFound(guard.name, outer=outer, collapsed=collapsed))
