"""Limits of an owner's jobs, and how many more of them a claim may start.

The rules are here; a store only looks up limits, running jobs and starts. Jobs without an owner
have no limits.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.jobs.downstreams.claim_permits import (
    RateSpent,
    rate_check_at,
    rate_remaining,
    rate_widths,
)
from holdfast.resilience import checks
from holdfast.resilience.policy import RateLimit

MOST = 2**31 - 1
"""The highest limit of a number of jobs."""
STARTS_KEPT = 90_000.0
"""Seconds after which a start counts for no rate: a day, and a slice of it."""
MOST_BYTES = 2**53
"""The highest limit of bytes: what JSON carries exactly."""


@dataclass(frozen=True, slots=True)
class OwnerLimits:
    """What one owner may use of the whole fleet. None sets no limit.

    Args:
        concurrency: jobs that run at once.
        rate: jobs that start in any second, minute and day; every attempt counts.
        waiting: unfinished jobs, running ones too; more are refused when they are enqueued.
        storage_bytes: bytes that the apps keep of the owner; more are refused when they arrive.
    """

    concurrency: int | None = None
    rate: RateLimit | None = None
    waiting: int | None = None
    storage_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "waiting"):
            checks.whole(name, getattr(self, name), at_least=1, at_most=MOST, optional=True)
        checks.whole(
            "storage_bytes", self.storage_bytes, at_least=1, at_most=MOST_BYTES, optional=True
        )
        checks.instance("rate", self.rate, RateLimit, optional=True)

    @property
    def limits_claims(self) -> bool:
        """Whether a claim must look at them."""
        return self.concurrency is not None or self.rate is not None


NO_LIMITS = OwnerLimits()
DELIVERIES = "webhook:"
"""What the owners of deliveries of webhooks begin with."""


def default_for(owner: str, default: OwnerLimits) -> OwnerLimits:
    """Return the limits of an owner without limits of its own.

    The default is meant for people: a webhook with much to deliver must not fall behind by it.
    """
    return NO_LIMITS if owner.startswith(DELIVERIES) else default


def dump_rate(rate: RateLimit | None) -> str | None:
    """Return a rate as JSON text."""
    if rate is None:
        return None
    return json.dumps(
        {
            "per_second": rate.per_second,
            "per_minute": rate.per_minute,
            "per_day": rate.per_day,
            "spread": rate.spread,
        }
    )


def load_limits(
    concurrency: int | None, rate: str | None, waiting: int | None, storage_bytes: int | None
) -> OwnerLimits:
    """Return limits from the columns of a store."""
    loaded = None if rate is None else RateLimit(**json.loads(rate))
    return OwnerLimits(concurrency, loaded, waiting, storage_bytes)


@dataclass(slots=True)
class RemainingStarts:
    """How many more jobs of each owner one claim may start.

    A store adds the owners whom it meets with `add`. What a claim means to take is reserved, and
    what it has taken is started; both count.

    Args:
        now: the time of the claim, in epoch seconds.
        wake_at: when a rate that refused a job may allow it; None where none did.
    """

    now: float
    wake_at: float | None = None
    _limits: dict[str, OwnerLimits] = field(default_factory=dict)
    _running: Counter[str] = field(default_factory=Counter)
    _rate_remaining: dict[str, int] = field(default_factory=dict)
    _check_at: dict[str, float] = field(default_factory=dict)
    _reserved: Counter[str] = field(default_factory=Counter)
    _starts: Counter[str] = field(default_factory=Counter)

    def knows(self, owner: str) -> bool:
        """Say whether `owner` was added; "" is no owner."""
        return owner == "" or owner in self._limits

    def owners(self) -> Iterable[str]:
        """Return the owners that were added."""
        return self._limits.keys()

    def add(
        self, owner: str, limits: OwnerLimits, running: int, spent: Sequence[RateSpent]
    ) -> None:
        """Add an owner: its limits, running jobs, and starts in the slices of its rate."""
        self._limits[owner] = limits
        self._running[owner] = running
        if limits.rate is not None:
            self._rate_remaining[owner] = rate_remaining(limits.rate, spent, self.now)
            self._check_at[owner] = rate_check_at(limits.rate, spent, self.now)

    def remaining(self, owner: str) -> int:
        """Return how many more jobs of a known owner may start."""
        if owner == "":
            return MOST
        limits, remaining = self._limits[owner], MOST
        taken = self._starts[owner] + self._reserved[owner]
        if limits.concurrency is not None:
            remaining = limits.concurrency - self._running[owner] - taken
        if limits.rate is not None:
            allowed = self._rate_remaining[owner] - taken
            if allowed <= 0:
                at = self._check_at[owner]
                self.wake_at = min(at, math.inf if self.wake_at is None else self.wake_at)
            remaining = min(remaining, allowed)
        return max(0, remaining)

    def reserve(self, owner: str, n: int) -> None:
        """Count `n` jobs that the claim means to take."""
        self._reserved[owner] += n

    def release(self, owner: str, n: int) -> None:
        """Count `n` reserved jobs no longer."""
        self._reserved[owner] -= n

    def start(self, owners: Iterable[str | None]) -> None:
        """Count one started job of each of `owners`; nothing is reserved any more."""
        self._reserved.clear()
        self._starts.update(owner for owner in owners if owner is not None)

    def spending(self) -> list[tuple[str, float, int, int, int]]:
        """Return what to store of the starts that rates count.

        Owner, width of the slice, slice, starts in it, and the oldest slice that still counts.
        """
        lines = []
        for owner, n in sorted(self._starts.items()):
            limits = self._limits.get(owner, NO_LIMITS)
            for width, period in rate_widths(limits.rate).items():
                oldest = int((self.now - period) // width)
                lines.append((owner, width, int(self.now // width), n, oldest))
        return lines
