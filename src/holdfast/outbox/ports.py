"""What the outbox needs from others: a store for its messages, and a publisher to hand them to.

A publisher implements three methods, and says by the exception it raises what a failure means:

- `MessageRefused`: the receiver does not take this message. Others may go through. The relay tries
  again with growing delays and marks the message `failed` at its limit.
- `MessageUnconfirmed`: no answer in time, so it may have arrived. The relay publishes it again,
  with the same id, until there is an answer.
- `PublisherUnavailable`: nothing can be published at the moment. The relay releases what it has
  claimed and waits; no message counts this as a retry.

Each store method is one transaction. `now` is epoch seconds for tests; None is the store's clock.
"""

from collections.abc import Sequence
from typing import Protocol

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.outbox.model import (
    Backlog,
    MessageClaim,
    MessagePage,
    MessageReport,
    MessageStatus,
    NewMessage,
    OutboxMessage,
    RelayTick,
)


class MessageRefused(HoldfastError):
    """The receiver does not take this message, for example because no queue is bound for it."""

    code = ErrorCode.GW_4XX


class MessageUnconfirmed(HoldfastError):
    """The receiver did not confirm a message in time; it may have arrived."""

    code = ErrorCode.GW_TIMEOUT


class PublisherUnavailable(HoldfastError):
    """No message can be published at the moment."""

    code = ErrorCode.GW_UNAVAILABLE


class PublisherMisconfigured(PublisherUnavailable):
    """No message can be published until a person changes the settings, such as a password."""

    code = ErrorCode.INVALID_STATE


class Publisher(Protocol):
    """Hands messages to their receiver."""

    async def open(self) -> None:
        """Connect unless connected; called before each batch.

        Raises:
            PublisherUnavailable: that is not possible now.
        """
        ...

    async def publish(self, message: MessageClaim) -> None:
        """Return once the receiver is responsible for `message`; it may come more than once.

        Called for many messages at a time, and for one of an aggregate at a time.

        Raises:
            MessageRefused, MessageUnconfirmed, PublisherUnavailable: see this module.
        """
        ...

    async def close(self) -> None:
        """Disconnect. Harmless if repeated."""
        ...


class OutboxStore(Protocol):
    """Keep the messages."""

    async def add_on(
        self, connection: object, messages: Sequence[NewMessage], *, now: float | None = None
    ) -> None:
        """Add `messages` inside the transaction that the caller's `connection` is in.

        Raises:
            TypeError: the connection is not supported, or is one to another database.
            ValueError: it has no open transaction.
        """
        ...

    async def erase_on(self, connection: object, aggregate_ids: Sequence[str]) -> int:
        """Delete the messages of `aggregate_ids`, whatever their status; raises as `add_on`."""
        ...

    async def tick(
        self,
        reports: Sequence[MessageReport],
        limit: int,
        lease_seconds: float,
        *,
        now: float | None = None,
    ) -> RelayTick:
        """Write `reports`, and claim up to `limit` messages for `lease_seconds`.

        Of an aggregate that another claim holds, or that waits for a retry, nothing is claimed;
        of the others the oldest messages first, in the order in which they were added. A report is
        a compare-and-set on the claim's token.
        """
        ...

    async def wait_for_messages(self, mark: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there may be messages since `mark`. A hint."""
        ...

    async def get(self, message_id: str) -> OutboxMessage | None:
        """Return one message."""
        ...

    async def list(
        self, status: MessageStatus | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> MessagePage:
        """Return messages, newest first.

        Raises:
            ValueError: `cursor` is not valid.
        """
        ...

    async def requeue(self, message_id: str, *, now: float | None = None) -> bool:
        """Make a failed message pending, with a fresh number of tries; False if it is not failed.

        It comes after the pending messages of its aggregate.
        """
        ...

    async def discard(self, message_id: str) -> bool:
        """Delete a failed message; False if it is not failed."""
        ...

    async def backlog(self, *, now: float | None = None) -> Backlog:
        """Return how much waits, and for how long."""
        ...

    async def delete_published(
        self, max_age: float, *, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete up to `limit` messages that were published `max_age` seconds ago or earlier."""
        ...


class InboxStore(Protocol):
    """Keep the request ids that were handled."""

    async def first_on(
        self, connection: object, consumer: str, request_id: str, *, now: float | None = None
    ) -> bool:
        """Record a request inside the caller's transaction; False if it is recorded already.

        Where another open transaction records the same request, wait for its end.

        Raises:
            TypeError, ValueError: as `OutboxStore.add_on`.
        """
        ...

    def first_now(self, connection: object, consumer: str, request_id: str) -> bool | None:
        """Do the same in the calling thread, without the store's event loop.

        None, and nothing is recorded, where that cannot be done: use `first_on`.
        """
        ...

    async def handled(self, consumer: str, request_id: str) -> bool:
        """Say whether a request is recorded, in a transaction that has committed."""
        ...

    async def delete_handled(
        self, max_age: float, *, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete up to `limit` records that are `max_age` seconds old or older."""
        ...
