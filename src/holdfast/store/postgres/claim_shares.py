"""The lanes that a checked claim looks at, and how many jobs each of them may give."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.store.postgres.limits import Limits


class LaneState(NamedTuple):
    """A row of `claim_lanes` or `claim_remembered_lanes`."""

    id: int
    queue: str
    downstream: str
    kind: str
    generation: int | None
    held_until: float | None
    needs_check: bool


Family = list[LaneState]
"""The lanes of one queue and downstream."""


class Share(NamedTuple):
    """How many jobs the family of a lane may give, and the generation of their permits."""

    lane: LaneState
    family: int
    most: int
    generation: int | None


def has_room(limits: Limits, family: Family) -> bool:
    """Say whether at least one job of `family` may start."""
    remaining, _ = limits.remaining(family[0].downstream, 1)
    return remaining > 0 and any(limits.kind_remaining(lane.kind) != 0 for lane in family)


def shares_of(limits: Limits, window: Sequence[Family], limit: int) -> list[Share]:
    """Return what each lane may give at most: its family's equal share, within the limits."""
    share = max(1, limit // len(window))
    remaining_by_name: dict[str, tuple[int, int | None]] = {}
    shares = []
    for number, family in enumerate(window, start=1):
        name = family[0].downstream
        remaining, generation = remaining_by_name.get(name) or limits.remaining(name, limit)
        most = min(share, remaining)
        remaining_by_name[name] = remaining - most, generation
        for lane in family:
            if most > 0 and limits.kind_remaining(lane.kind) != 0:
                given = lane.generation if limits.record(name) is None else generation
                shares.append(Share(lane, number, most, given))
    return shares
