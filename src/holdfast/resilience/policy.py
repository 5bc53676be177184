"""Policies: what a guarded call may cost, as plain frozen values checked when they are made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from holdfast.errors import Category, UnwantedResult
from holdfast.resilience import checks
from holdfast.resilience.backoff import Exponential, WaitFunction

_TIMED_MINIMUM_CALLS = 10
"""Calls a window of time must hold before its rate is judged, unless the policy says otherwise."""

RateRule = Literal["above", "at_least"]
"""How a share of failures is compared with `failure_rate`."""

RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[BaseException], bool]
"""Which errors are tried again: exception types, or a function that is given the error."""

MOST_REMEMBERED = 10_000_000
"""Calls that a window or a rate may remember one by one."""

_SHORTEST_WINDOW = 0.001
"""Seconds: a window cut into twenty parts still keeps them apart."""


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a breaker opens, for how long, and how it tries again. Either rule opens it.

    Args:
        consecutive_failures: failures in a row that open it; None turns this rule off.
        failure_rate: share of failed calls in the window above which it opens, judged after every
            call; None turns this rule off.
        window_calls: how many of the last calls the rate looks at.
        window_seconds: look at the calls of the last so many seconds instead.
        minimum_calls: how many calls the window must hold before the rate is judged; by default
            `window_calls`, or 10 where the window is one of time.
        open_for: seconds that it stays open before trial calls are let through.
        trial_calls: how many trial calls are let through, and must succeed to close it.
        trial_timeout: seconds after which a trial that has not ended loses its permit; by
            default `open_for`.
        exclude: error types that count as neither success nor failure. Permanent errors, 4xx
            answers and Holdfast's own refusals never count and need not be listed.
        rate_rule: `"above"` opens above `failure_rate`, `"at_least"` also at it.
    """

    consecutive_failures: int | None = 5
    failure_rate: float | None = None
    window_calls: int = 20
    window_seconds: float | None = None
    minimum_calls: int | None = None
    open_for: float = 60.0
    trial_calls: int = 3
    trial_timeout: float | None = None
    exclude: tuple[type[Exception], ...] = ()
    rate_rule: RateRule = "above"

    def __post_init__(self) -> None:
        checks.whole("consecutive_failures", self.consecutive_failures, at_least=1, optional=True)
        checks.number("failure_rate", self.failure_rate, at_least=0, at_most=1, optional=True)
        if self.consecutive_failures is None and self.failure_rate is None:
            raise ValueError(
                "consecutive_failures and failure_rate are both None: the breaker could never open"
            )
        self._check_rate_rule()
        checks.whole("window_calls", self.window_calls, at_least=1, at_most=MOST_REMEMBERED)
        seconds = self.window_seconds
        checks.number("window_seconds", seconds, at_least=_SHORTEST_WINDOW, optional=True)
        self._check_minimum()
        self._check_exclude()
        checks.number("open_for", self.open_for, above=0)
        checks.whole("trial_calls", self.trial_calls, at_least=1)
        checks.number("trial_timeout", self.trial_timeout, above=0, optional=True)

    def _check_rate_rule(self) -> None:
        if self.rate_rule not in get_args(RateRule):
            names = " or ".join(map(repr, get_args(RateRule)))
            raise ValueError(f"rate_rule must be {names}, got {self.rate_rule!r}")
        if self.rate_rule == "at_least" and self.failure_rate == 0:
            raise ValueError(
                'failure_rate must be above 0 where rate_rule is "at_least", '
                f"got {self.failure_rate!r}: successes alone would open the breaker"
            )
        never_passed = self.rate_rule == "above" and self.failure_rate == 1
        if self.consecutive_failures is None and never_passed:
            raise ValueError(
                "failure_rate must be below 1 where consecutive_failures is None, "
                f"got {self.failure_rate!r}: no share is above it, the breaker could never open"
            )

    def _check_minimum(self) -> None:
        if self.minimum_calls is None:
            return
        checks.whole("minimum_calls", self.minimum_calls, at_least=1)
        if self.window_seconds is None and self.minimum_calls > self.window_calls:
            raise ValueError(
                f"minimum_calls must be at most window_calls ({self.window_calls}), "
                f"got {self.minimum_calls!r}"
            )

    def _check_exclude(self) -> None:
        checks.instance("exclude", self.exclude, tuple)
        for kind in self.exclude:
            if not _is_exception_type(kind):
                raise TypeError(f"exclude must hold exception types, got {kind!r}")

    @property
    def judged_from(self) -> int:
        """How many calls the window must hold before the rate is judged."""
        if self.minimum_calls is not None:
            return self.minimum_calls
        return self.window_calls if self.window_seconds is None else _TIMED_MINIMUM_CALLS

    @property
    def trial_lifetime(self) -> float:
        """Seconds that a trial may keep its place without coming back."""
        return self.open_for if self.trial_timeout is None else self.trial_timeout

    def rate_passed(self, calls: int, failures: int) -> bool:
        """Return whether `failures` among `calls` in the window open the breaker by rate."""
        if self.failure_rate is None or calls < self.judged_from:
            return False
        # Divided, not multiplied: 29 of 100 is not above 0.29, but 0.29 * 100 is below 29.
        share = failures / calls
        return share > self.failure_rate or (
            self.rate_rule == "at_least" and share == self.failure_rate
        )


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many attempts may start in any second, minute and day. At least one must be given.

    `spread` spaces the starts evenly over the shortest of the periods given, in place of bursts:
    with `per_minute=30` there are two seconds between any two.
    """

    per_minute: int | None = None
    per_day: int | None = None
    per_second: int | None = None
    spread: bool = False

    def __post_init__(self) -> None:
        if not self.periods:
            raise ValueError(
                "per_second, per_minute and per_day are all None: nothing would be limited"
            )
        for name in ("per_second", "per_minute", "per_day"):
            value = getattr(self, name)
            checks.whole(name, value, at_least=1, at_most=MOST_REMEMBERED, optional=True)
        checks.instance("spread", self.spread, bool)

    @property
    def periods(self) -> tuple[tuple[float, int], ...]:
        """The limits that are given: seconds and how many starts, the shortest period first."""
        limits = ((1.0, self.per_second), (60.0, self.per_minute), (86_400.0, self.per_day))
        return tuple((period, count) for period, count in limits if count is not None)

    @property
    def gap(self) -> float:
        """Seconds between any two starts; 0 without `spread`."""
        period, count = self.periods[0]
        return period / count if self.spread else 0.0


@runtime_checkable
class ExternalRate(Protocol):
    """A rate that is counted outside of this process, as `Engine.shared_rate` returns one."""

    @property
    def limit(self) -> RateLimit:
        """How many attempts may start, of all processes together."""
        ...

    async def reserve(self, longest: float) -> float:
        """Return the seconds to wait before the next start; where over `longest`, take no place."""
        ...

    def reserve_sync(self, longest: float) -> float:
        """Do what `reserve` does, and block the calling thread meanwhile."""
        ...


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many retries the calls of the last `window` seconds may make together.

    Args:
        share: retries allowed per call, as a share: 0.2 adds at most a fifth to the traffic.
        floor: retries always allowed in a window, so that quiet callers may retry at all.
        window: seconds looked back.
    """

    share: float = 0.2
    floor: int = 10
    window: float = 10.0

    def __post_init__(self) -> None:
        checks.number("share", self.share, at_least=0, at_most=1)
        checks.whole("floor", self.floor, at_least=0)
        checks.number("window", self.window, at_least=_SHORTEST_WINDOW)


@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """How many attempts may run at once, and how many seconds one may wait for its turn.

    `max_wait=None` waits as long as the call's deadline allows; 0 refuses at once. A blocking
    attempt that was cut off ends its turn, though its thread may run on until the call that it is
    stuck in returns.
    """

    limit: int
    max_wait: float | None = None

    def __post_init__(self) -> None:
        checks.whole("limit", self.limit, at_least=1)
        checks.number("max_wait", self.max_wait, at_least=0, optional=True)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What one guarded call may do before it gives up.

    Args:
        max_attempts: attempts in all, the first included.
        backoff: the delays between them; `WaitFunction` takes a function of yours.
        attempt_timeout: seconds after which a running attempt is cut.
        deadline: seconds for the whole call, waits included; the running attempt is cut too.
        breaker: when to stop calling a downstream that fails.
        budget: how many retries all calls of this name may make together.
        rate: how many attempts of this name may start; charged per attempt, which waits for its
            place at most `backoff.cap` seconds. An `ExternalRate` is counted for all processes.
        idempotent: False says that repeating the call may repeat its effect: an attempt whose
            outcome is not known (it timed out, or its connection broke) is then not repeated.
        concurrency: how many attempts of this name may run at once.
        categorize: a first look at an error; returns None to leave it to what follows. Where it
            raises, that is logged and it is left to what follows, too. 4xx answers and Holdfast's
            own refusals never count against a breaker, whatever it says.
        retry_on: the only errors that are tried again: an exception type, several, or a function
            that is given the error. Without it `holdfast.categorize` decides.
        retry_result: given what an attempt returned; True for a result that is not wanted, so that
            the attempt fails with `UnwantedResult` and is tried again. A breaker counts it as
            neither success nor failure. Where it raises, the attempt fails with that error.
    """

    max_attempts: int = 3
    backoff: Exponential | WaitFunction = field(default_factory=Exponential)
    attempt_timeout: float | None = None
    deadline: float | None = None
    breaker: BreakerPolicy | None = None
    budget: RetryBudget | None = None
    rate: RateLimit | ExternalRate | None = None
    idempotent: bool = True
    concurrency: ConcurrencyLimit | None = None
    categorize: Callable[[BaseException], Category | None] | None = None
    retry_on: RetryOn | None = None
    retry_result: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        checks.whole("max_attempts", self.max_attempts, at_least=1)
        if not isinstance(self.backoff, Exponential | WaitFunction):
            raise TypeError(
                f"backoff must be an Exponential or a WaitFunction, got {self.backoff!r}"
            )
        checks.number("attempt_timeout", self.attempt_timeout, above=0, optional=True)
        checks.number("deadline", self.deadline, above=0, optional=True)
        checks.instance("breaker", self.breaker, BreakerPolicy, optional=True)
        checks.instance("budget", self.budget, RetryBudget, optional=True)
        if not isinstance(self.rate, ExternalRate):
            checks.instance("rate", self.rate, RateLimit, optional=True)
        checks.hashable("rate", self.rate)
        checks.instance("idempotent", self.idempotent, bool)
        checks.instance("concurrency", self.concurrency, ConcurrencyLimit, optional=True)
        checks.function("categorize", self.categorize, optional=True)
        checks.hashable("categorize", self.categorize)
        _check_retry_on(self.retry_on)
        checks.function("retry_result", self.retry_result, optional=True)
        checks.hashable("retry_result", self.retry_result)

    def check_result(self, value: object) -> None:
        """Raise `UnwantedResult` if `retry_result` refuses `value`, or what it raises itself."""
        if self.retry_result is not None and self.retry_result(value):
            raise UnwantedResult(value)


def _check_retry_on(value: RetryOn | None) -> None:
    if value is not None and not isinstance(value, type | tuple):
        checks.function("retry_on", value)
        checks.hashable("retry_on", value)
        return
    kinds = value if isinstance(value, tuple) else () if value is None else (value,)
    if value == () or not all(_is_exception_type(kind) for kind in kinds):
        raise TypeError(
            f"retry_on must be exception types or a function that is given the error, got {value!r}"
        )


def _is_exception_type(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)
