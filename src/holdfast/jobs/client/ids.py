"""The ids that jobs are given when the caller gives them none.

32 characters: 12 hex digits of the time in milliseconds, 10 of chance, 4 decimal digits that number
the ids made by one call, and 6 hex digits of chance again. They grow with time, so a database
appends them to its indexes in order; and those of one call have their first 22 characters, their
stem, in common, so that a store may keep one entry for all of them.
"""

import os
from collections.abc import Sequence
from functools import lru_cache

IN_A_ROW = 10_000
"""The most ids that have a stem in common."""
_STEM = 22
_LENGTH = 32


def new_ids(count: int, wall: float) -> list[str]:
    """Return `count` new ids; `wall` is the time in epoch seconds."""
    ids: list[str] = []
    for start in range(0, count, IN_A_ROW):
        numbers = _numbers()[: count - start]
        stem = f"{int(wall * 1000):012x}{os.urandom(5).hex()}"
        chance = os.urandom(3 * len(numbers)).hex()
        ids += [
            f"{stem}{number}{chance[place : place + 6]}"
            for number, place in zip(numbers, range(0, len(chance), 6), strict=True)
        ]
    return ids


def in_a_row(ids: Sequence[str]) -> bool:
    """Say whether `ids` have a stem in common and are numbered from 0000 on."""
    if not 1 <= len(ids) <= IN_A_ROW or set(map(len, ids)) != {_LENGTH}:
        return False
    stem = ids[0][:_STEM]
    return [one[: _STEM + 4] for one in ids] == [stem + number for number in _numbers()[: len(ids)]]


@lru_cache(maxsize=1)
def _numbers() -> tuple[str, ...]:
    return tuple(f"{number:04d}" for number in range(IN_A_ROW))
