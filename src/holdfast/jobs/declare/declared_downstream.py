"""Declare the dependency that a kind of job calls: its breaker, its limits, its health probe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from holdfast.jobs.downstreams.record import DownstreamSettings, HoldMode
from holdfast.resilience import checks
from holdfast.resilience.policy import BreakerPolicy, ExternalRate, RateLimit, RetryPolicy

NAME_LENGTH = 200
"""Most characters of a downstream's name."""


class Inherited(Enum):
    """Marks a setting that is taken from the kind's retry policy."""

    FROM_POLICY = "from_policy"


FROM_POLICY: Final = Inherited.FROM_POLICY
"""The default of `Downstream.breaker`."""


@dataclass(frozen=True, slots=True)
class Downstream:
    """A named dependency, shared by all workers and by all kinds that declare it.

    Args:
        name: shown on pages and in commands.
        breaker: when it opens and closes. By default that of the kind's retry policy, or
            `BreakerPolicy()` if that has none; None never opens.
        mode: what happens to jobs while the breaker is open: `"hold"` leaves them queued and counts
            no attempt, `"fail_fast"` fails them at once with the code of the last failure.
        concurrency: most jobs that run at once in the whole fleet. By default that of the kind's
            retry policy, or unlimited.
        spare: how many of these one owner leaves to others, so that none holds them all: with
            `concurrency=5, spare=1` at most four. Slashes in an owner's name make levels, and each
            level leaves as many: all owners of `office` four, `office/ann` three. Every owner
            may run one job, and jobs without an owner are not limited.
        rate: limit on job starts in the whole fleet. By default that of the kind's retry policy,
            or unlimited.
        ramp_seconds: seconds after closing during which the number of running jobs grows
            gradually; 0 starts all at once.
        unproven_concurrency: most jobs that run at once until a call has succeeded: at first, and
            after each failure. So a dependency that accepts calls and never answers cannot occupy
            all places of the kind before its first call has timed out. None sets no such limit.
        key: splits the downstream by the value it returns for a job's arguments:
            `Downstream("host", key=lambda args: args.host)` gives `host:example.org` a breaker of
            its own. Called when a job is enqueued.
        probe: a function without arguments, plain or async, that checks the dependency's health.
            While the breaker is open one worker of the fleet calls it; unless it returns False or
            raises, trial calls start before `open_for` has passed. With `key` it gets the key.
        probe_every: seconds between two probes, and the timeout of each.
    """

    name: str
    breaker: BreakerPolicy | Inherited | None = FROM_POLICY
    mode: HoldMode | str = HoldMode.HOLD
    concurrency: int | None = None
    rate: RateLimit | None = None
    ramp_seconds: float = 30.0
    unproven_concurrency: int | None = None
    key: Callable[[Any], str] | None = None
    probe: Callable[..., object] | None = None
    probe_every: float = 10.0
    spare: int = 0

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if self.breaker is not FROM_POLICY:
            checks.instance("breaker", self.breaker, BreakerPolicy, optional=True)
        try:
            object.__setattr__(self, "mode", HoldMode(self.mode))
        except ValueError:
            modes = " or ".join(repr(str(mode)) for mode in HoldMode)
            raise ValueError(f"mode must be {modes}, got {self.mode!r}") from None
        checks.whole("concurrency", self.concurrency, at_least=1, optional=True)
        checks.whole("spare", self.spare, at_least=0)
        checks.whole("unproven_concurrency", self.unproven_concurrency, at_least=1, optional=True)
        if self.unproven_concurrency is not None and self.breaker is None:
            raise ValueError("unproven_concurrency needs a breaker, which counts successes")
        checks.instance("rate", self.rate, RateLimit, optional=True)
        checks.number("ramp_seconds", self.ramp_seconds, at_least=0)
        checks.function("key", self.key, optional=True)
        checks.function("probe", self.probe, optional=True)
        checks.number("probe_every", self.probe_every, above=0)

    def under(self, policy: RetryPolicy) -> "Downstream":
        """Return a copy whose unset values are taken from the kind's retry policy."""
        breaker = self.breaker
        if isinstance(breaker, Inherited):
            breaker = policy.breaker or BreakerPolicy()
        limit = policy.concurrency.limit if policy.concurrency is not None else None
        rate = self.rate if self.rate is not None else policy.rate
        if isinstance(rate, ExternalRate):
            raise TypeError(
                f"rate must be a RateLimit, got {rate!r}: the store counts a downstream's rate "
                "for all processes by itself"
            )
        return replace(
            self,
            breaker=breaker,
            concurrency=self.concurrency if self.concurrency is not None else limit,
            rate=rate,
        )

    def name_for(self, arguments: object) -> str:
        """Return the downstream's name for a job with these arguments."""
        if self.key is None:
            return self.name
        key = self.key(arguments)
        check_name("key", key)
        return f"{self.name}:{key}"

    def key_of(self, name: str) -> str | None:
        """Return the key in the downstream name `name`; None if `name` has no key of this one."""
        prefix = f"{self.name}:"
        if self.key is None or not name.startswith(prefix):
            return None
        return name.removeprefix(prefix)

    def covers(self, name: str) -> bool:
        """Say whether `name` is this downstream's name, or one made by its `key`."""
        return self.key_of(name) is not None if self.key is not None else name == self.name

    def settings(self, name: str | None = None) -> DownstreamSettings:
        """Return the settings to store; `name` is a result of `name_for`."""
        breaker, name = self.breaker, name or self.name
        return DownstreamSettings(
            name=name,
            breaker=None if isinstance(breaker, Inherited) else breaker,
            mode=HoldMode(self.mode),
            concurrency=self.concurrency,
            rate=self.rate,
            ramp_seconds=self.ramp_seconds,
            spare=self.spare if self.concurrency is not None else 0,
            unproven_concurrency=self.unproven_concurrency,
            parent=None if self.key_of(name) is None else self.name,
        )


def check_name(field: str, value: object) -> None:
    """Refuse `value` unless it can be the name of a downstream, or the key in one.

    Raises:
        TypeError: it is not a text.
        ValueError: it is empty, too long, not printable or has spaces around it.
    """
    checks.label(field, value)
    assert isinstance(value, str)
    if len(value) > NAME_LENGTH or not value.isprintable() or value != value.strip():
        raise ValueError(
            f"{field} must be printable, without spaces around it and at most {NAME_LENGTH} "
            f"characters, got {value[:300]!r}"
        )
