"""How long a job waits before its next attempt."""

from random import Random

from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Claim
from holdfast.jobs.worker.failure import Failure

_LONGEST_WAIT = 3650 * 86400.0
"""Seconds that a retry waits at most: ten years is a time that any store can represent."""


def retry_delay(failure: Failure, claim: Claim, kind: JobKind, rng: Random) -> float:
    """Return the seconds until the next attempt of a job that failed with `failure`.

    The policy's backoff decides. A wait that the downstream asked for replaces a shorter one and is
    never shortened, not even by the backoff's cap: a waiting job occupies no slot. `RetryLater`
    from the handler replaces both.
    """
    asked = asked_delay(failure)
    if failure.after is not None:
        return asked
    return max(min(kind.policy.backoff.delay(claim.attempt, rng), _LONGEST_WAIT), asked)


def asked_delay(failure: Failure) -> float:
    """Return the seconds that the downstream or the handler asked to wait; 0 if neither did."""
    after = failure.diagnosis.retry_after if failure.after is None else failure.after
    return min(after or 0.0, _LONGEST_WAIT)
