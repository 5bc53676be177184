"""Messages that are committed with the rows they speak of, and published after that.

`engine.outbox` adds messages in the caller's own transaction, a `Relay` publishes them, and
`engine.inbox` notices a message that comes again. Whatever takes messages is a `Publisher`;
`holdfast.messaging` has those for RabbitMQ and for the engine's own jobs.

Acknowledged messages are never lost: one is marked `published` only after its receiver has
confirmed it. They come at least once: after a lost confirm the same message, with the same id, is
published again.
"""

from holdfast.outbox.blocking import BlockingHandling, BlockingInbox, BlockingOutbox
from holdfast.outbox.client import BadMessage, MessageNotFailed, Outbox, UnknownMessage
from holdfast.outbox.handling import Handling, Release, RequestClaim, RequestStart, StartState
from holdfast.outbox.inbox import Inbox
from holdfast.outbox.model import (
    Backlog,
    MessageClaim,
    MessageDraft,
    MessagePage,
    MessageStatus,
    OutboxMessage,
)
from holdfast.outbox.options import RelayOptions
from holdfast.outbox.ports import (
    MessageRefused,
    MessageUnconfirmed,
    Publisher,
    PublisherMisconfigured,
    PublisherUnavailable,
)
from holdfast.outbox.relay import Relay

__all__ = [
    "Backlog",
    "BadMessage",
    "BlockingHandling",
    "BlockingInbox",
    "BlockingOutbox",
    "Handling",
    "Inbox",
    "MessageClaim",
    "MessageDraft",
    "MessageNotFailed",
    "MessagePage",
    "MessageRefused",
    "MessageStatus",
    "MessageUnconfirmed",
    "Outbox",
    "OutboxMessage",
    "Publisher",
    "PublisherMisconfigured",
    "PublisherUnavailable",
    "Relay",
    "RelayOptions",
    "Release",
    "RequestClaim",
    "RequestStart",
    "StartState",
    "UnknownMessage",
]
