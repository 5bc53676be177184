"""Timing on a noisy machine: contenders take turns, and the best round of each counts."""

import asyncio
import gc
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class Scale(Enum):
    """How much a run measures; QUICK runs are not recorded."""

    QUICK = 0
    NORMAL = 1
    FULL = 2


_chosen = Scale.NORMAL


def choose_scale(scale: Scale) -> None:
    """Choose the scale that `sized` uses from now on."""
    global _chosen  # noqa: PLW0603 - one process measures at one scale
    _chosen = scale


def sized(quick: int, normal: int, full: int | None = None) -> int:
    """Return the number for the chosen scale; `full` defaults to `normal`."""
    if _chosen is Scale.QUICK:
        return quick
    return full if _chosen is Scale.FULL and full is not None else normal


@dataclass(frozen=True)
class Goal:
    """A goal of a row: its ratio for `peer` must be at least `at_least`."""

    peer: str
    at_least: float


@dataclass
class Row:
    """One row of the table.

    `ratios` holds for each peer how many times better Holdfast was in this run. `counts` are
    absolute results: those in `expected` must match exactly, and those in `at_most` must not be
    exceeded.
    """

    work: str
    ratios: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    expected: dict[str, float] = field(default_factory=dict)
    at_most: dict[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether every goal was reached in this run."""
        ratios_met = all(self.ratios.get(goal.peer, 0.0) >= goal.at_least for goal in self.goals)
        counts_met = all(self.counts.get(name) == count for name, count in self.expected.items())
        bounds_met = all(
            self.counts.get(name, float("inf")) <= bound for name, bound in self.at_most.items()
        )
        return ratios_met and counts_met and bounds_met

    def as_dict(self) -> dict[str, Any]:
        """Return the row for the results file."""
        return {**asdict(self), "met": self.met}


def best_seconds(
    contenders: Mapping[str, Callable[[], object]], *, calls: int = 5_000, rounds: int = 15
) -> dict[str, float]:
    """Return the best seconds per call of each contender, taking turns round by round."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, call in contenders.items():
            gc.collect()
            repeat = range(calls)
            begin = time.perf_counter()
            for _ in repeat:
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / calls)
    return best


def best_seconds_async(
    contenders: Mapping[str, Callable[[], Awaitable[object]]],
    *,
    calls: int = 4_000,
    rounds: int = 15,
) -> dict[str, float]:
    """Return the best seconds per awaited call of each contender, taking turns."""

    async def measure() -> dict[str, float]:
        best = dict.fromkeys(contenders, float("inf"))
        for _ in range(rounds):
            for name, call in contenders.items():
                gc.collect()
                repeat = range(calls)
                begin = time.perf_counter()
                for _ in repeat:
                    await call()
                best[name] = min(best[name], (time.perf_counter() - begin) / calls)
        return best

    return asyncio.run(measure())


def best_rates(
    contenders: Mapping[str, Callable[[], float]], *, rounds: int = 3
) -> dict[str, float]:
    """Return the best rate per second that each contender reports, taking turns."""
    best = dict.fromkeys(contenders, 0.0)
    for _ in range(rounds):
        for name, run in contenders.items():
            gc.collect()
            best[name] = max(best[name], run())
    return best


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0 to 1) of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratios_to_ours(seconds: Mapping[str, float], ours: str) -> dict[str, float]:
    """Return how many times longer than `ours` each other contender takes."""
    return {
        name: round(value / seconds[ours], 2) for name, value in seconds.items() if name != ours
    }


def rate_ratios(rates: Mapping[str, float], ours: str) -> dict[str, float]:
    """Return how many times the rate of each other contender `ours` reaches."""
    return {name: round(rates[ours] / rate, 2) for name, rate in rates.items() if name != ours}
