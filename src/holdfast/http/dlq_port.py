"""What the routes for a dead-letter queue need of a broker; `holdfast.messaging` has it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias


class DlqMessage(Protocol):
    """A message of a dead-letter queue, as it was received."""

    @property
    def message_id(self) -> str:
        """Its id; the same when it is requeued."""
        ...

    @property
    def message_type(self) -> str | None:
        """Its type."""
        ...

    @property
    def body(self) -> bytes:
        """Its original body."""
        ...

    @property
    def headers(self) -> Mapping[str, Any]:
        """Its headers, with those that say why it is here."""
        ...

    @property
    def original_queue(self) -> str | None:
        """The queue that it was meant for, if that is known."""
        ...


class DlqTools(Protocol):
    """Look after one dead-letter queue.

    Each method raises `PublisherUnavailable` where the broker does not answer, and
    `PublisherMisconfigured` where there is no such queue or the broker refuses the account.
    """

    async def list(self, limit: int = ...) -> Sequence[DlqMessage]:
        """Return up to `limit` messages, oldest first; they stay there."""
        ...

    async def get(self, message_id: str) -> DlqMessage | None:
        """Return one message, or None; it stays there."""
        ...

    async def requeue(self, message_id: str, *, to: str | None = None) -> DlqMessage:
        """Publish a message again with its original body, and remove it once confirmed.

        Raises:
            LookupError: it is not in the queue.
            MessageRefused: it cannot be published.
        """
        ...

    async def discard(self, message_id: str) -> DlqMessage:
        """Delete a message for good.

        Raises:
            LookupError: it is not in the queue.
        """
        ...


DlqSource: TypeAlias = Callable[[str], DlqTools]
"""Returns the tools for the queue of a name."""
