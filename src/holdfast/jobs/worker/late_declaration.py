"""Declare a downstream that the store does not know, before its jobs run without limits.

A downstream with a `key` is declared when its first job is enqueued. If that job was created in the
caller's own transaction, the declaration follows the commit, and the caller's process may end in
between. The first worker that claims such a job then declares it.
"""

import logging
import math

from holdfast.clock import Clock
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Claim
from holdfast.jobs.store_port import DownstreamStore, StoreError

_log = logging.getLogger("holdfast.worker")


class LateDeclaration:
    """Declare missing downstreams, for one worker."""

    def __init__(self, store: DownstreamStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._declared: dict[str, float] = {}

    def is_needed(self, claim: Claim, kind: JobKind) -> bool:
        """Say whether the downstream of `claim` is unknown to the store."""
        return (
            claim.permit is None
            and claim.downstream is not None
            and kind.downstream is not None
            and kind.downstream.key_of(claim.downstream) is not None
        )

    async def declare(self, claim: Claim, kind: JobKind, started_at: float) -> bool:
        """Declare the downstream of `claim`; True: release the job, to be claimed within limits.

        Args:
            started_at: when the claim was made, on the monotonic clock. A claim made after the
                declaration is run as it is.
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
