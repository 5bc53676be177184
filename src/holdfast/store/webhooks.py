"""Webhooks: both stores have statements of the same names and columns."""

import json
from abc import abstractmethod

from holdfast.jobs.webhook_port import NewWebhook, Webhook, WebhookWait
from holdfast.store.row_mapping import Row
from holdfast.store.statements import Statements


class Webhooks(Statements):
    """A store's webhooks, but for how it runs a statement; see `WebhookStore`."""

    @abstractmethod
    async def last_sequence(self) -> int:
        """Return the sequence of the newest event."""

    async def add_webhook(self, webhook: NewWebhook, *, now: float | None = None) -> Webhook:
        """Store a webhook."""
        since = await self.last_sequence()
        await self._changed_rows("webhook_begin", now, since=since)
        kinds = None if webhook.kinds is None else json.dumps(list(webhook.kinds))
        (row,) = await self._changed_rows(
            "webhook_add", now, id=webhook.id, url=webhook.url, owner=webhook.owner, kinds=kinds,
            events=json.dumps(list(webhook.events)), secret=webhook.secret, since=since,
        )  # fmt: skip
        return _webhook(row)

    async def webhooks(self, owner: str | None = None) -> tuple[Webhook, ...]:
        """Return webhooks, oldest first."""
        if owner is None:
            return tuple(map(_webhook, await self._rows("webhook_list")))
        return tuple(map(_webhook, await self._rows("webhook_list_of_owner", owner=owner)))

    async def newest_webhooks(self, limit: int) -> tuple[Webhook, ...]:
        """Return webhooks, newest first."""
        return tuple(map(_webhook, await self._rows("webhook_newest", limit=limit)))

    async def webhook(self, webhook_id: str) -> Webhook | None:
        """Return one webhook."""
        found = await self._rows("webhook_find", id=webhook_id)
        return _webhook(found[0]) if found else None

    async def remove_webhook(self, webhook_id: str) -> bool:
        """Delete a webhook."""
        return bool(await self._changed_rows("webhook_remove", None, id=webhook_id))

    async def webhook_cursor(self) -> int:
        """Return how far deliveries are enqueued."""
        found = await self._rows("webhook_cursor")
        return int(found[0][0]) if found else 0

    async def move_webhook_cursor(self, sequence: int) -> None:
        """Note how far deliveries are enqueued."""
        await self._changed_rows("webhook_move_cursor", None, sequence=sequence)

    async def webhook_wait(self, leadership: str) -> WebhookWait | None:
        """Return how long retention has waited for deliveries."""
        found = await self._rows("webhook_wait", leadership=leadership)
        return WebhookWait(*found[0]) if found else None

    async def note_webhook_wait(self, leadership: str, wait: WebhookWait | None) -> None:
        """Note how long retention has waited for deliveries."""
        if wait is None:
            await self._changed_rows("webhook_end_wait", None, leadership=leadership)
            return
        await self._changed_rows(
            "webhook_note_wait", None,
            leadership=leadership, awaited=wait.sequence, waited=wait.seconds,
        )  # fmt: skip


def _webhook(row: Row) -> Webhook:
    webhook_id, url, owner, kinds, events, secret, since, created_at = row
    return Webhook(
        webhook_id,
        url,
        owner,
        None if kinds is None else tuple(json.loads(kinds)),
        tuple(json.loads(events)),
        secret,
        since,
        created_at,
    )
