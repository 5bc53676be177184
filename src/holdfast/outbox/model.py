"""A message of the outbox: its states, and the values that a relay and its store exchange.

A message is `pending` from the commit that holds it until the broker has confirmed it
(`published`) or has refused it too often (`failed`). A person may requeue a failed message, which
makes it pending again, or discard it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class MessageStatus(StrEnum):
    """Where a message stands."""

    PENDING = "pending"
    """Committed, and not yet confirmed by the broker."""
    PUBLISHED = "published"
    """Confirmed by the broker."""
    FAILED = "failed"
    """Refused by the broker as often as the relay tries; it waits for a person."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to add.

    `payload` is JSON text; `headers` that of an object, or None. It is published after `delay`
    seconds at the earliest.
    """

    id: str
    aggregate_id: str
    message_type: str
    payload: str
    headers: str | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """A message as a program writes it; see the parameters of `Outbox.add`."""

    aggregate_id: str
    message_type: str
    payload: Any
    headers: Mapping[str, Any] | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message as it is stored. Times are epoch seconds.

    Attributes:
        id: the same for each time it is published, so that a receiver notices a repetition.
        aggregate_id: what it speaks of; messages of one aggregate are published one after another.
        payload: JSON text.
        retry_count: how often publishing it has failed.
        error_message: why, the last time; None for a message that was published.
        processed_at: when it was published, or failed.
        due_at: when it may be published at the earliest; `created_at` if it was not delayed.
        headers: JSON text of an object, or None.
    """

    id: str
    aggregate_id: str
    message_type: str
    payload: str
    status: MessageStatus
    retry_count: int
    error_message: str | None
    created_at: float
    processed_at: float | None
    due_at: float
    headers: str | None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages, newest first; `next_cursor` continues the list, None at its end."""

    messages: tuple[OutboxMessage, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class MessageClaim:
    """A message that one relay may publish, under the fencing `token` of its lease."""

    seq: int
    token: int
    id: str
    aggregate_id: str
    message_type: str
    payload: str
    retry_count: int
    created_at: float
    headers: str | None = None


@dataclass(frozen=True, slots=True)
class MessageReport:
    """What became of a claimed message.

    Args:
        status: `pending` returns it, to be claimed again after `delay` seconds.
        error: why publishing failed, which counts as a retry; None: it was not tried, or it
            was published.
    """

    id: str
    token: int
    status: MessageStatus
    error: str | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class RelayTick:
    """The answer to a relay: what it may publish next.

    Attributes:
        claims: in the order in which they were added.
        refused: reports under a token that is no longer valid: another relay took the message.
        wake_in: seconds until a waiting or delayed message can be claimed; None if none waits.
        mark: for `wait_for_messages`.
    """

    claims: tuple[MessageClaim, ...]
    refused: int
    wake_in: float | None
    mark: int


COUNTED_AT_MOST = 10_000
"""A backlog larger than this is not counted further: counting costs as much as it is large."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the outbox holds. `pending` and `failed` count up to `COUNTED_AT_MOST`.

    Delayed messages that are not due yet are left out.

    Attributes:
        lag: seconds since the oldest pending message was due; 0 where none is pending.
    """

    pending: int
    failed: int
    lag: float
