"""How the owners of waiting jobs share the places of a downstream, so that none takes them all.

A downstream with a `concurrency` of 5 has five places. With a `spare` of 1 an owner leaves one of
them to others, also while no other waits: a job may run for long, and the next one to arrive shall
not wait for it. Slashes in an owner's name make levels, and each level leaves as many: with
`office/ann`, all owners of `office` together hold four places at most, and `office/ann` three.
Every owner may hold one. Jobs without an owner are not limited.

The rule is here; a store only looks up which owners wait.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

from holdfast.jobs.claim_sharing import Turn
from holdfast.jobs.downstreams.record import DownstreamSettings

AFTER = "\x01"
"""Appended to an owner's name, it makes the first text after that name."""

OwnerSearch = Generator[str, str | None, list[str]]
"""Yields a text, is sent the first waiting owner from it on or None, and returns those chosen."""


def levels(owner: str) -> list[str]:
    """Return the names of an owner's levels, its own last: `a/b` gives `a` and `a/b`."""
    parts = owner.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


@dataclass(slots=True)
class OwnerPlaces:
    """Who holds the places of one downstream.

    Args:
        concurrency: the number of places.
        spare: how many of them each level leaves to others.
    """

    concurrency: int
    spare: int
    _held: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, settings: DownstreamSettings, running: Iterable[str]) -> "OwnerPlaces":
        """Return the places of a downstream; `running` are the owners of its running jobs."""
        assert settings.concurrency is not None
        places = cls(settings.concurrency, settings.spare)
        places.take(running)
        return places

    def take(self, owners: Iterable[str]) -> None:
        """Count one more running job of each of `owners`."""
        for owner in owners:
            self._held.update(levels(owner))

    def release(self, owners: Iterable[str]) -> None:
        """Count one running job of each of `owners` less."""
        for owner in owners:
            self._held.subtract(levels(owner))

    def full_level(self, owner: str) -> str | None:
        """Return the first level of `owner` that holds all it may; None where a job may start.

        The owner "" stands for none.
        """
        if not owner:
            return None
        for depth, level in enumerate(levels(owner), start=1):
            if self._held[level] >= max(1, self.concurrency - depth * self.spare):
                return level
        return None

    def choose(
        self, wanted: int, turn: Turn | None, is_skipped: Callable[[str], bool] | None = None
    ) -> OwnerSearch:
        """Choose up to `wanted` waiting owners of whom one job each may start, and count it.

        In the order of their names, from the one after that of `turn` on, round to where it began.
        """
        begins = "" if turn is None else turn.owner + AFTER
        chosen: list[str] = []
        for start, end in ((begins, None), ("", begins)):
            if end == "" or len(chosen) == wanted:
                break
            owner = yield start
            while owner is not None and (end is None or owner < end):
                full = self.full_level(owner)
                if full is None and not (is_skipped and is_skipped(owner)):
                    chosen.append(owner)
                    self.take([owner])
                    if len(chosen) == wanted:
                        break
                # "0" follows "/": the first name behind all those below a level.
                behind = owner + AFTER if full is None or full == owner else full + "0"
                owner = yield behind
        return chosen
