"""Timing that means something on a noisy machine: contenders take turns, the best round counts."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Goal:
    """What a row must reach: `ratio` of `peer` to ours at least `at_least`."""

    peer: str
    at_least: float


@dataclass
class Row:
    """One line of the table.

    `ratios` says, for each peer, how many times better ours is than the peer in this run; for
    `counts`, the numbers themselves are the result.
    """

    work: str
    ratios: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    expected: dict[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether every goal was reached in this run."""
        ratios_met = all(self.ratios.get(goal.peer, 0.0) >= goal.at_least for goal in self.goals)
        counts_met = all(self.counts.get(who) == count for who, count in self.expected.items())
        return ratios_met and counts_met

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


def ratios_to_ours(seconds: Mapping[str, float], ours: str) -> dict[str, float]:
    """Return how many times longer than `ours` each other contender takes."""
    return {
        name: round(value / seconds[ours], 2) for name, value in seconds.items() if name != ours
    }


def rate_ratios(rates: Mapping[str, float], ours: str) -> dict[str, float]:
    """Return how many times more per second `ours` does than each other contender."""
    return {name: round(rates[ours] / rate, 2) for name, rate in rates.items() if name != ours}
