"""Declare a downstream that the store does not know of, before a job of it runs without limits.

A downstream with a `key` is declared when its first job is enqueued. Where the job was created in
a transaction of the caller's own, that comes after the commit, and whoever enqueued may be gone by
then. The first worker that is handed such a job makes up for it.
"""

import logging
import math

from holdfast.clock import Clock
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Claim
from holdfast.jobs.store_port import Downstreams, StoreError

_log = logging.getLogger("holdfast.worker")


class Declarer:
    """Declare what is missing, for one worker."""

    def __init__(self, store: Downstreams, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._declared: dict[str, float] = {}

    def misses(self, claim: Claim, kind: JobKind) -> bool:
        """Say whether `claim` was made without a word on its downstream, though it has one."""
        return (
            claim.permit is None
            and claim.downstream is not None
            and kind.downstream is not None
            and kind.downstream.key_of(claim.downstream) is not None
        )

    async def declare(self, claim: Claim, kind: JobKind, started_at: float) -> bool:
        """Declare the downstream of `claim`; True: hand the job back, to be claimed within limits.

        Args:
            started_at: when the claim came in, on the monotonic clock. One that came after the
                store was told is run as it is: the store has its reasons.
        """
        name = claim.downstream
        assert name is not None
        assert kind.downstream is not None
        if started_at > self._declared.get(name, math.inf):
            return False
        try:
            await self._store.declare_downstreams([kind.downstream.settings(name)])
        except StoreError as error:
            _log.warning("downstream %r could not be declared: %s", name, error)
            return False
        self._declared.setdefault(name, self._clock.monotonic())
        return True
