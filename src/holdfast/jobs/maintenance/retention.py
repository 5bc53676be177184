"""Delete finished jobs by the retention of their kinds.

A job whose end no webhook was notified of yet is kept: after a long stop, jobs may be past their
retention before their deliveries are enqueued. Retention waits for that an hour at most, and stores
how long it has waited, so that a new leader goes on where the one before it has stopped.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener, notify
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.retention import call_on_deleted
from holdfast.jobs.history import JobEvent
from holdfast.jobs.job_events import JobsDeleted
from holdfast.jobs.store_port import MaintenanceStore
from holdfast.jobs.webhook_port import WebhookStore, WebhookWait

_log = logging.getLogger("holdfast.maintenance")

_LONGEST_WAIT = 3600.0
"""Seconds that deletion waits for the deliveries of webhooks; then they are given up."""
_LOOK_AGAIN = 1.0
"""Seconds between two looks while it waits."""
_NOTE_EVERY = 10.0
"""Seconds of waiting after which its length is stored again."""


class RetainedStore(MaintenanceStore, WebhookStore, Protocol):
    """The store methods that retention needs."""

    async def last_sequence(self) -> int:
        """Return the sequence of the newest event."""
        ...

    async def changes_since(
        self, sequence: int, *, owner: str | None = None, limit: int = 500
    ) -> tuple[JobEvent, ...]:
        """Return events after `sequence`, in order."""
        ...


class RetentionService:
    """Apply each kind's `Retention`, in batches, oldest jobs first.

    Args:
        leadership: that this service runs under. Each has its own hour to wait for webhooks: what
            workers of another app have waited is no time in which these could deliver.
        interval: seconds between two rounds.
    """

    name = "retention"

    def __init__(
        self,
        store: RetainedStore,
        kinds: Iterable[JobKind],
        leadership: str,
        *,
        interval: float,
        batch: int = 500,
        listeners: Sequence[Listener] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._interval = interval
        self._store = store
        self._leadership = leadership
        self._clock = clock
        self._awaited: _Awaited | None = None
        self._batch = batch
        self._listeners = listeners
        self._rules = tuple(
            (kind, rule)
            for kind in kinds
            for name in kind.names
            for rule in kind.retention.rules(name)
        )

    @property
    def interval(self) -> float:
        """Seconds between two rounds."""
        return self._interval if self._awaited is None else min(self._interval, _LOOK_AGAIN)

    async def round(self) -> int:
        """Delete all jobs past their retention; return how many."""
        if await self._must_wait():
            return 0
        total = 0
        for kind, rule in self._rules:
            while True:
                deleted = await self._store.delete_finished(rule, limit=self._batch)
                if deleted:
                    total += len(deleted)
                    await call_on_deleted(kind.name, kind.retention, deleted)
                    notify(self._listeners, JobsDeleted(kind.name, deleted))
                if len(deleted) < self._batch:
                    break
        return total

    async def _must_wait(self) -> bool:
        """Say whether deliveries of what has ended before this wait began are still missing."""
        if not await self._store.webhooks():
            self._awaited = None
            return False
        now = self._clock.monotonic()
        pending = await self._store.changes_since(await self._store.webhook_cursor(), limit=1)
        oldest = pending[0].sequence if pending else None
        if self._awaited is None:
            self._awaited = await self._begun(oldest, now)
        awaited = self._awaited
        missing = oldest is not None and oldest <= awaited.sequence
        waited = awaited.seconds_at(now)
        if missing and waited < _LONGEST_WAIT:
            if waited >= awaited.noted + _NOTE_EVERY:
                wait = WebhookWait(awaited.sequence, waited)
                await self._store.note_webhook_wait(self._leadership, wait)
                awaited.noted = waited
            return True
        if missing:
            _log.warning(
                "jobs are deleted though webhooks were not notified of all of them within %g s: "
                "does a worker deliver webhooks?", _LONGEST_WAIT,
            )  # fmt: skip
        if awaited.noted:
            await self._store.note_webhook_wait(self._leadership, None)
        self._awaited = None
        return False

    async def _begun(self, oldest: int | None, now: float) -> "_Awaited":
        """Begin to wait for the deliveries of all that has ended by now.

        If deliveries are missing that an earlier leader has waited for, its seconds count, so that
        the hour is one hour however often leaders change.

        Args:
            oldest: the first event whose deliveries are missing.
        """
        last = await self._store.last_sequence()
        earlier = await self._store.webhook_wait(self._leadership)
        if earlier is not None and oldest is not None and oldest <= earlier.sequence:
            return _Awaited(last, now - earlier.seconds, earlier.seconds)
        return _Awaited(last, now)


@dataclass(slots=True)
class _Awaited:
    """Up to which event deliveries are waited for, since when, and how much of that is stored.

    Attributes:
        since: on the monotonic clock; without the time in which no leader ran.
        noted: seconds.
    """

    sequence: int
    since: float
    noted: float = 0.0

    def seconds_at(self, now: float) -> float:
        """Return how long they are waited for."""
        return now - self.since
