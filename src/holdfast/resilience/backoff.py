"""How long to wait between attempts."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from holdfast.resilience import checks

_log = logging.getLogger("holdfast.retry")


@dataclass(frozen=True, slots=True)
class Exponential:
    """Grow the delay by `multiplier` after every failed attempt.

    Args:
        base: the delay after the first failed attempt, in seconds, before jitter.
        multiplier: the factor from one delay to the next; at least 1.
        cap: the longest delay, in seconds; it bounds the result after jitter as well.
        jitter: a share between 0 and 1 by which the delay is spread to both sides, or `"full"`
            for a delay drawn evenly between 0 and the computed one.
    """

    base: float = 1.0
    multiplier: float = 2.0
    cap: float = 60.0
    jitter: float | Literal["full"] = 0.2

    def __post_init__(self) -> None:
        checks.number("base", self.base, at_least=0)
        checks.number("multiplier", self.multiplier, at_least=1)
        checks.number("cap", self.cap, at_least=0)
        if isinstance(self.jitter, str):
            if self.jitter != "full":
                raise ValueError(f'jitter must be a share or "full", got {self.jitter!r}')
        else:
            checks.number("jitter", self.jitter, at_least=0, at_most=1)

    def nominal(self, attempt: int) -> float:
        """Return the delay in seconds after failed attempt `attempt` (from 1), without jitter."""
        try:
            grown = self.base * float(self.multiplier) ** (attempt - 1)
        except OverflowError:
            return float(self.cap) if self.base else 0.0
        return float(min(grown, self.cap))

    def delay(self, attempt: int, rng: Random) -> float:
        """Return the delay in seconds after failed attempt `attempt` (from 1), with jitter.

        The result is never negative and never above `cap`.
        """
        nominal = self.nominal(attempt)
        if self.jitter == "full":
            return nominal * rng.random()
        spread = float(self.jitter) * (2.0 * rng.random() - 1.0)
        return min(nominal * (1.0 + spread), float(self.cap))


@dataclass(frozen=True, slots=True)
class WaitFunction:
    """Delays that a function of yours computes.

    Args:
        function: given the number of the failed attempt (from 1), returns the delay in seconds.
        cap: the longest delay, in seconds.
    """

    function: Callable[[int], float]
    cap: float = 60.0

    def __post_init__(self) -> None:
        checks.function("function", self.function)
        checks.hashable("function", self.function)
        checks.number("cap", self.cap, at_least=0)

    def delay(self, attempt: int, rng: Random) -> float:
        """Return the delay in seconds after failed attempt `attempt` (from 1), at most `cap`.

        Where the function raises or returns no delay, that is logged and the default backoff is
        used: the error at hand is the one that the caller must see.
        """
        try:
            seconds = self.function(attempt)
            checks.number("the delay", seconds, at_least=0)
        except Exception:
            _log.exception("the wait function failed on attempt %d", attempt)
            seconds = _DEFAULT.delay(attempt, rng)
        return min(float(seconds), float(self.cap))


_DEFAULT = Exponential()
