"""How many jobs a worker claims beyond its free slots.

A tick costs about a millisecond, however few jobs it carries. A worker whose attempts take less
than that would mostly wait for its store, so it claims with each tick what it will start within the
next moments, as the prefetch of a message broker's consumer does. Attempts that take longer gain
nothing by it, and none is claimed ahead.

None is claimed ahead either where a kind has a downstream or a limit: such a job counts as running
from its claim on, and after a breaker has opened no further call may start. Nor where a kind has
only one attempt: if the worker died, jobs that it had not started would be dead letters.
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
        self._most = _MOST if all(map(_may_wait, kinds)) else 0
        self._mean = _UNKNOWN

    def note(self, seconds: float) -> None:
        """Take in how long an attempt took."""
        self._mean += _WEIGHT * (seconds - self._mean)

    def jobs(self, free: int) -> int:
        """Return how many jobs to claim beyond the `free` slots."""
        if self._most == 0 or free <= 0:
            return 0
        return int(free * min(self._most, _SOON / max(self._mean, 1e-9)))


def _may_wait(kind: JobKind) -> bool:
    """Say whether jobs of `kind` may be claimed some time before they start."""
    return kind.downstream is None and kind.concurrency is None and kind.policy.max_attempts > 1
