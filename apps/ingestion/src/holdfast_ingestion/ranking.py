"""Join several rankings of the same things into one."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

DAMPING = 60
"""Evens out the first places; the value of the paper, Cormack et al., SIGIR 2009."""


def reciprocal_rank_fusion(
    rankings: Iterable[Sequence[T]], *, damping: float = DAMPING
) -> list[tuple[T, float]]:
    """Return all that is ranked, best first, each with its score.

    A thing scores `1 / (damping + rank)` in each ranking that has it, with ranks from 1. So one
    that two rankings have near the top goes before one that only one of them has there, and the
    scores within a ranking, which cannot be compared with those of another, do not matter. Of equal
    ones the one that was met first goes first.

    Raises:
        ValueError: a ranking has something twice.
    """
    scores: dict[T, float] = {}
    for ranking in rankings:
        if len(set(ranking)) != len(ranking):
            raise ValueError("a ranking has something twice")
        for rank, each in enumerate(ranking, start=1):
            scores[each] = scores.get(each, 0.0) + 1 / (damping + rank)
    return sorted(scores.items(), key=lambda item: -item[1])
