"""Declare a downstream that the store does not know, before its jobs run without limits.

A downstream with a `key` is declared when its first job is enqueued. If that job was created in the
caller's own transaction, the declaration follows the commit, and the caller's process may end in
between. Retention deletes the record of one that was not used for long. The first worker that
claims a job without a record then declares it.
"""

import logging

from holdfast.clock import Clock
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Claim
from holdfast.jobs.store_port import DownstreamStore, StoreError

_log = logging.getLogger("holdfast.worker")

_TRUSTED_FOR = 3600.0
"""Seconds for which a declared record is taken to exist; much later it may have been deleted."""
_MOST = 10_000
"""Declarations that are remembered; one more, and all are forgotten first."""


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
        declared_at = self._declared.get(name)
        if declared_at is not None and declared_at < started_at < declared_at + _TRUSTED_FOR:
            return False
        try:
            await self._store.declare_downstreams([kind.downstream.settings(name)])
        except StoreError as error:
            _log.warning("downstream %r could not be declared: %s", name, error)
            return False
        if len(self._declared) >= _MOST:
            self._declared.clear()
        self._declared[name] = self._clock.monotonic()
        return True
