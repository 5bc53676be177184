"""Chance that comes out the same in every run."""

from __future__ import annotations

import random

__all__ = ["FixedRandom", "seeded_rng"]


def seeded_rng(seed: int = 0) -> random.Random:
    """Return a generator of its own: the same seed gives the same numbers."""
    return random.Random(seed)


class FixedRandom(random.Random):
    """A generator that draws the given numbers, 0 to 1, in turn; the last one repeats.

    `uniform`, `choice`, `shuffle` and the rest follow from them, which puts a test exactly on an
    edge: `FixedRandom(0.0)` is the lowest jitter there is and `FixedRandom(1.0)` the highest.
    """

    def __new__(cls, *_: float) -> FixedRandom:
        """Keep the values from the base class, which would take them for a seed."""
        return super().__new__(cls)

    def __init__(self, *values: float) -> None:
        """Take one number or more, each from 0 to 1."""
        if not values:
            raise ValueError("FixedRandom needs at least one value")
        for value in values:
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"values must lie between 0 and 1, got {value!r}")
        super().__init__()
        self._values = values
        self._drawn = 0

    def random(self) -> float:
        """Return the next of the given numbers."""
        value = self._values[min(self._drawn, len(self._values) - 1)]
        self._drawn += 1
        return value

    def _randbelow(self, n: int) -> int:
        # The base class would take the remainder of a huge product, and draw 1.0 again for ever.
        return min(int(self.random() * n), n - 1)
