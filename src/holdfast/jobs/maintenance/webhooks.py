"""Enqueue a delivery for each end of a job that a webhook wants to be notified of.

The history of all jobs is followed by its sequence, which misses nothing: how far is stored after
the deliveries are. After a crash in between they are enqueued again under the same ids, which
creates none twice. So jobs pay nothing for webhooks, whether there are any or not.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.webhook_job import KIND, delivery_job, message_of
from holdfast.jobs.history import JobEvent
from holdfast.jobs.model import Enqueued, NewJob
from holdfast.jobs.store_port import DownstreamStore
from holdfast.jobs.webhook_port import ENDS, Webhook, WebhookStore

_log = logging.getLogger("holdfast.maintenance")

_IDLE_INTERVAL = 3600.0
"""Seconds between two rounds where no app delivers webhooks: there is nothing to do."""


class FollowedStore(WebhookStore, DownstreamStore, Protocol):
    """The store methods that following the history needs."""

    async def changes_since(
        self, sequence: int, *, owner: str | None = None, limit: int = 500
    ) -> tuple[JobEvent, ...]:
        """Return events after `sequence`, in order."""
        ...

    async def enqueue(
        self, jobs: Sequence[NewJob], *, now: float | None = None
    ) -> tuple[Enqueued, ...]:
        """Create `jobs`, all or none."""
        ...


class WebhookDispatch:
    """Follow the history, where one of `kinds` delivers webhooks.

    Args:
        interval: seconds between two looks.
        batch: events that are read at once.
    """

    name = "webhooks"

    def __init__(
        self,
        store: FollowedStore,
        kinds: Iterable[JobKind],
        *,
        interval: float,
        batch: int = 500,
    ) -> None:
        self._store = store
        self._kind = next((kind for kind in kinds if kind.name == KIND), None)
        self._batch = batch
        self.interval = _IDLE_INTERVAL if self._kind is None else interval

    async def round(self) -> int:
        """Enqueue all deliveries that are due; return how many."""
        if self._kind is None or not await self._store.webhooks():
            return 0
        total, sequence = 0, await self._store.webhook_cursor()
        while events := await self._store.changes_since(sequence, limit=self._batch):
            total += await self._dispatch(self._kind, events)
            sequence = events[-1].sequence
            await self._store.move_webhook_cursor(sequence)
        return total

    async def _dispatch(self, kind: JobKind, events: Sequence[JobEvent]) -> int:
        # Read after the events: one that was added before any of them happened is among these.
        webhooks = await self._store.webhooks()
        ends = [event for event in events if event.name in ENDS and event.kind != KIND]
        jobs = [job for webhook in webhooks for job in _deliveries(kind, webhook, ends)]
        if jobs:
            downstream = kind.downstream
            if downstream is not None:
                names = dict.fromkeys(job.downstream for job in jobs if job.downstream is not None)
                await self._store.declare_downstreams([downstream.settings(each) for each in names])
            await self._store.enqueue(jobs)
        return len(jobs)


def _deliveries(kind: JobKind, webhook: Webhook, ends: Sequence[JobEvent]) -> list[NewJob]:
    """Return the jobs that notify `webhook` of those of `ends` that it wants."""
    due = [event for event in ends if _is_due(webhook, event)]
    try:
        return [
            delivery_job(kind, webhook, f"wh-{webhook.id}-{event.sequence}", message_of(event))
            for event in due
        ]
    except Exception as error:
        # Without this, one stored row would stop the deliveries of all webhooks for good.
        _log.warning(
            "webhook %s is not notified of %d events, because no delivery can be made for it: %s",
            webhook.id, len(due), error, extra={"webhook_id": webhook.id},
        )  # fmt: skip
        return []


def _is_due(webhook: Webhook, event: JobEvent) -> bool:
    return event.sequence > webhook.since and webhook.wants(event.kind, event.owner, event.name)
