"""Look after a dead-letter queue of RabbitMQ: list, show, requeue and discard, losing nothing.

Messages are read without being acknowledged, and the broker puts them back when the connection
closes. One that is requeued is acknowledged only after its copy was confirmed, so a crash in
between leaves it twice, never lost.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.messaging.broker import Broker, QueueSpec
from holdfast.outbox.ports import MessageRefused, PublisherMisconfigured

if TYPE_CHECKING:
    from aio_pika.abc import AbstractIncomingMessage

_ABOUT_THE_FAILURE = (
    "failureReason", "attemptsMade", "lastError", "timestamp", "originalQueue", "x-death",
    "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason", "x-delivery-count",
)  # fmt: skip
"""Headers that a requeued message does not keep: it starts with a fresh budget."""


ROUND = "holdfast_round"
"""The header by which a consumer notices that a message was requeued: see `outbox.handling`."""


class UnknownDeadMessage(HoldfastError, LookupError):
    """The queue holds no message with this id."""

    code = ErrorCode.FORBIDDEN


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message of a dead-letter queue; `body` and `headers` are those that were received.

    `message_id` is the id of the task where a Celery message has no id of its own. A message
    without either is addressed by a digest of its body and its headers, so messages that are alike
    have the same address.
    """

    message_id: str
    message_type: str | None
    body: bytes
    headers: Mapping[str, Any]

    @property
    def original_queue(self) -> str | None:
        """The queue that it was meant for, if that is known."""
        found = self.headers.get("originalQueue") or self.headers.get("x-first-death-queue")
        return None if found is None else str(found)


class DeadLetterQueue:
    """The dead letters in the queue `queue` of the RabbitMQ at `url`.

    Args:
        queue: declared where it is missing; or the name of a queue that exists.

    Raises:
        PublisherMisconfigured: the address cannot be one, or aio-pika is not installed.
    """

    def __init__(self, url: str, queue: QueueSpec | str) -> None:
        self._url = url
        self._name = queue if isinstance(queue, str) else queue.name
        self._declared = () if isinstance(queue, str) else (queue,)

    async def list(self, limit: int = 100) -> tuple[DeadMessage, ...]:
        """Return up to `limit` messages, oldest first.

        Raises:
            PublisherUnavailable: the broker does not answer.
        """
        found = []
        async with self._opened() as broker:
            async for message in self._messages(broker):
                found.append(_as_dead(message))
                if len(found) == limit:
                    break
        return tuple(found)

    async def get(self, message_id: str) -> DeadMessage | None:
        """Return one message, or None."""
        async with self._opened() as broker:
            message = await self._find(broker, message_id)
            return None if message is None else _as_dead(message)

    async def requeue(self, message_id: str, *, to: str | None = None) -> DeadMessage:
        """Publish a message again with its original body, and remove it here once confirmed.

        Args:
            to: the queue; by default the one that it was meant for.

        Raises:
            UnknownDeadMessage: it is not in the queue.
            MessageRefused: the queue that it was meant for is not known, or does not exist.
        """
        from aio_pika import Message
        from aio_pika.exceptions import DeliveryError

        async with self._opened() as broker:
            message = await self._found(broker, message_id)
            dead = _as_dead(message)
            target = to or dead.original_queue
            if target is None:
                raise MessageRefused(f"message {message_id} does not say which queue it is from")
            kept = {k: v for k, v in message.headers.items() if k not in _ABOUT_THE_FAILURE}
            kept[ROUND] = int(str(kept.get(ROUND) or 0)) + 1
            copy = Message(
                message.body,
                message_id=dead.message_id,
                type=message.type,
                correlation_id=message.correlation_id,
                reply_to=message.reply_to,
                content_type=message.content_type,
                headers=kept,
                delivery_mode=2,
            )
            channel = await broker.channel()
            try:
                await channel.default_exchange.publish(copy, target, mandatory=True)
            except DeliveryError:
                raise MessageRefused(f"there is no queue {target!r}") from None
            await message.ack()
            return dead

    async def discard(self, message_id: str) -> DeadMessage:
        """Delete a message for good, and return it.

        Raises:
            UnknownDeadMessage: it is not in the queue.
        """
        async with self._opened() as broker:
            message = await self._found(broker, message_id)
            await message.ack()
            return _as_dead(message)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Broker]:
        broker = Broker(self._url, self._declared)
        try:
            yield broker
        finally:
            await broker.close()

    async def _messages(self, broker: Broker) -> "AsyncIterator[AbstractIncomingMessage]":
        from aio_pika.exceptions import ChannelNotFoundEntity

        channel = await broker.channel()
        try:
            queue = await channel.get_queue(self._name)
        except ChannelNotFoundEntity:
            raise PublisherMisconfigured(f"{broker.where} has no queue {self._name!r}") from None
        while (message := await queue.get(fail=False)) is not None:
            yield message

    async def _find(self, broker: Broker, message_id: str) -> "AbstractIncomingMessage | None":
        async for message in self._messages(broker):
            if _id_of(message) == message_id:
                return message
        return None

    async def _found(self, broker: Broker, message_id: str) -> "AbstractIncomingMessage":
        message = await self._find(broker, message_id)
        if message is None:
            raise UnknownDeadMessage(f"{self._name} holds no message {message_id!r}")
        return message


def _id_of(message: "AbstractIncomingMessage") -> str:
    """Return the id of a message; kombu sets none, and Celery's tasks have one in their headers."""
    return message.message_id or str(message.headers.get("id") or "") or _digest(message)


def _digest(message: "AbstractIncomingMessage") -> str:
    # The broker counts deliveries in a header, also those to this class.
    kept = {k: v for k, v in message.headers.items() if k != "x-delivery-count"}
    headers = json.dumps(kept, sort_keys=True, default=repr).encode()
    return f"sha256-{sha256(headers + message.body).hexdigest()[:32]}"


def _as_dead(message: "AbstractIncomingMessage") -> DeadMessage:
    return DeadMessage(_id_of(message), message.type, message.body, message.headers)
