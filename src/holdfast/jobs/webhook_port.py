"""What a store does for webhooks: addresses that are notified of the ends of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.jobs.model import EventName

ENDS = (EventName.COMPLETE, EventName.FAILED, EventName.CANCELLED)
"""The events that a webhook can be notified of."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is notified of the ends of jobs.

    Args:
        id: its name for `remove`.
        url: where messages are sent.
        owner: whose jobs; None for those of all owners, and those without one.
        kinds: which kinds of jobs; None for all.
        events: which of `complete`, `failed` and `cancelled` it is notified of.
        secret: signs what is sent, `whsec_…`.
        since: the sequence of events when it was added; it is notified of later ones.
        created_at: epoch seconds.
    """

    id: str
    url: str
    owner: str | None
    kinds: tuple[str, ...] | None
    events: tuple[str, ...]
    secret: str = field(repr=False)
    since: int
    created_at: float

    def wants(self, kind: str, owner: str | None, event: str) -> bool:
        """Say whether it is notified of `event` of a job."""
        return (
            event in self.events
            and (self.owner is None or self.owner == owner)
            and (self.kinds is None or kind in self.kinds)
        )


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A webhook to be stored; see `Webhook`."""

    id: str
    url: str
    owner: str | None
    kinds: Sequence[str] | None
    events: Sequence[str]
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookWait:
    """How many seconds retention has waited for the deliveries of the events up to `sequence`.

    Only the time in which a leader ran counts, whichever it was.
    """

    sequence: int
    seconds: float


class WebhookStore(Protocol):
    """Keep webhooks, and up to which event their deliveries are enqueued."""

    async def add_webhook(self, webhook: NewWebhook, *, now: float | None = None) -> Webhook:
        """Store a webhook; it is notified of what ends from now on."""
        ...

    async def webhooks(self, owner: str | None = None) -> tuple[Webhook, ...]:
        """Return the webhooks of `owner`, or all of them, oldest first."""
        ...

    async def newest_webhooks(self, limit: int) -> tuple[Webhook, ...]:
        """Return up to `limit` webhooks of all owners, newest first."""
        ...

    async def webhook(self, webhook_id: str) -> Webhook | None:
        """Return one webhook."""
        ...

    async def remove_webhook(self, webhook_id: str) -> bool:
        """Delete a webhook; False if there is none."""
        ...

    async def webhook_cursor(self) -> int:
        """Return the sequence of the last event whose deliveries are enqueued."""
        ...

    async def move_webhook_cursor(self, sequence: int) -> None:
        """Note that deliveries up to `sequence` are enqueued; it never goes back."""
        ...

    async def webhook_wait(self, leadership: str) -> WebhookWait | None:
        """Return how long the leaders of `leadership` have waited; None while they do not wait."""
        ...

    async def note_webhook_wait(self, leadership: str, wait: WebhookWait | None) -> None:
        """Note how long the leaders of `leadership` have waited; None: they wait no longer."""
        ...
