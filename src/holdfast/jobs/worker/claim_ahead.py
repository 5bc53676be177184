"""How many jobs a worker claims beyond its free slots.

A tick costs about a millisecond, however few jobs it carries. A worker whose attempts take less
than that would mostly wait for its store, so it claims with each tick what it will start within the
next moments, as the prefetch of a message broker's consumer does. Attempts that take longer gain
nothing by it, and none is claimed ahead.

None is claimed ahead either where a kind has a downstream or a limit: such a job counts as running
from its claim on, and after a breaker has opened no further call may start. Nor where a kind has
fewer than three attempts: a job that kills two workers would make dead letters of jobs that were
claimed with it and have never started. See `start_queue` for what is done about such a job.
"""

from collections.abc import Iterable

from holdfast.jobs.declare.kinds import JobKind

_SOON = 0.05
"""Seconds within which a job that is claimed ahead is expected to start."""
_MOST = 9
"""Jobs claimed ahead for each free slot, at most: a worker that dies costs each an attempt."""
_UNKNOWN = 1.0
"""Seconds that attempts are assumed to take before any has ended."""
_WEIGHT = 0.02
"""Weight of one attempt in the mean: the last hundred or so count."""


class ClaimAhead:
    """Learn how long attempts take, and say how many jobs to claim ahead."""

    def __init__(self, kinds: Iterable[JobKind]) -> None:
        self._most = _MOST if may_claim_ahead(kinds) else 0
        self._mean = _UNKNOWN

    def note(self, seconds: float) -> None:
        """Take in how long an attempt took."""
        self._mean += _WEIGHT * (seconds - self._mean)

    def jobs(self, free: int) -> int:
        """Return how many jobs to claim beyond the `free` slots."""
        if self._most == 0 or free <= 0:
            return 0
        return int(free * min(self._most, _SOON / max(self._mean, 1e-9)))


def may_claim_ahead(kinds: Iterable[JobKind]) -> bool:
    """Say whether jobs of all these kinds may be claimed some time before they start."""
    return all(
        kind.downstream is None and kind.concurrency is None and kind.policy.max_attempts > 2
        for kind in kinds
    )
