"""Reproducible random numbers."""

from __future__ import annotations

import random

__all__ = ["FixedRandom", "seeded_rng"]


def seeded_rng(seed: int = 0) -> random.Random:
    """Return a new generator: the same seed gives the same numbers."""
    return random.Random(seed)


class FixedRandom(random.Random):
    """A generator that returns the given numbers, 0 to 1, in turn; the last one repeats.

    `uniform`, `choice`, `shuffle` and the rest use them: `FixedRandom(0.0)` gives the lowest jitter
    and `FixedRandom(1.0)` the highest.
    """

    def __new__(cls, *_: float) -> FixedRandom:
        """Hide the values from the base class, which would use them as a seed."""
        return super().__new__(cls)

    def __init__(self, *values: float) -> None:
        """Take one or more numbers from 0 to 1."""
        if not values:
            raise ValueError("FixedRandom needs at least one value")
        for value in values:
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"values must lie between 0 and 1, got {value!r}")
        super().__init__()
        self._values = values
        self._drawn = 0

    def random(self) -> float:
        """Return the next number."""
        value = self._values[min(self._drawn, len(self._values) - 1)]
        self._drawn += 1
        return value

    def _randbelow(self, n: int) -> int:
        # The base class rejects 1.0 and would draw it again for ever.
        return min(int(self.random() * n), n - 1)
