"""Publish to RabbitMQ with confirms: a message counts once the broker has taken it.

Every message is persistent and mandatory: one that no queue is bound for is refused instead of
being dropped. The connection is opened when it is needed and opened anew after it has closed.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.messaging.broker import Broker, QueueSpec
from holdfast.outbox.model import MessageClaim
from holdfast.outbox.ports import MessageRefused, MessageUnconfirmed

JSON = "application/json"


def by_message_type(message: MessageClaim) -> str:
    """Return the routing key of a message: its type, which is the name of its queue."""
    return message.message_type


def _headers(message: MessageClaim) -> dict[str, Any]:
    return {} if message.headers is None else dict(json.loads(message.headers))


class RabbitPublisher:
    """Implements `Publisher` for RabbitMQ.

    The body of a message is its payload, the AMQP property `message_id` its id, `type` its type,
    and the header `aggregate_id` what it speaks of. Its own headers `correlation_id` and `reply_to`
    become the AMQP properties of these names.

    Args:
        url: `amqp://user:password@host:5672/vhost`.
        queues: declared whenever a connection is opened.
        exchange: where messages go; "" leads to the queue that the routing key names.
        routing_key: chooses a message's routing key; by default its type.
        timeout: seconds within which a message must be confirmed.
        connect_timeout: seconds that connecting may take.

    Raises:
        PublisherMisconfigured: the address cannot be one, or aio-pika is not installed.
    """

    def __init__(
        self,
        url: str,
        queues: Sequence[QueueSpec] = (),
        *,
        exchange: str = "",
        routing_key: Callable[[MessageClaim], str] = by_message_type,
        timeout: float = 5.0,
        connect_timeout: float = 10.0,
    ) -> None:
        self._broker = Broker(url, queues, timeout=connect_timeout)
        self._exchange = exchange
        self._routing_key = routing_key
        self._timeout = timeout

    async def open(self) -> None:
        """Connect unless connected.

        Raises:
            PublisherUnavailable: the broker does not answer.
            PublisherMisconfigured: it refuses the account, the virtual host or a queue.
        """
        await self._broker.channel()

    async def close(self) -> None:
        """Disconnect."""
        await self._broker.close()

    async def publish(self, message: MessageClaim) -> None:
        """Publish a message of the outbox; see `Publisher.publish`."""
        await self.send(
            message.payload.encode(),
            self._routing_key(message),
            message_id=message.id,
            message_type=message.message_type,
            headers={**_headers(message), "aggregate_id": message.aggregate_id},
        )

    async def send(
        self,
        body: bytes,
        routing_key: str,
        *,
        message_id: str,
        message_type: str | None = None,
        headers: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> None:
        """Publish `body`, and return once the broker has confirmed it.

        Raises:
            MessageRefused: it cannot be routed, or the broker rejects it.
            MessageUnconfirmed: there was no confirm in time.
            PublisherUnavailable: the broker cannot be reached, or the connection was lost.
        """
        from aio_pika import DeliveryMode, Message
        from aio_pika.exceptions import CONNECTION_EXCEPTIONS, DeliveryError

        channel = await self._broker.channel()
        given = dict(headers or {})
        message = Message(
            body,
            message_id=message_id,
            type=message_type,
            correlation_id=given.pop("correlation_id", None),
            reply_to=given.pop("reply_to", None),
            headers=given,
            content_type=content_type,
            delivery_mode=DeliveryMode.PERSISTENT,
        )
        try:
            async with asyncio.timeout(self._timeout):
                exchange = (
                    await channel.get_exchange(self._exchange, ensure=False)
                    if self._exchange
                    else channel.default_exchange
                )
                await exchange.publish(message, routing_key, mandatory=True)
        except DeliveryError as error:
            raise MessageRefused(self._refusal(error, routing_key)) from None
        except TimeoutError:
            self._broker.retire(channel)
            raise MessageUnconfirmed(
                f"{self._broker.where} did not confirm within {self._timeout:g} s"
            ) from None
        except CONNECTION_EXCEPTIONS as error:
            raise self._broker.explained(error) from error

    def _refusal(self, error: Any, routing_key: str) -> str:
        returned = getattr(error.frame, "reply_text", None)
        if returned:
            exchange = f"exchange {self._exchange!r}" if self._exchange else "the default exchange"
            return f"{returned}: {exchange} leads to no queue for {routing_key!r}"
        return f"{self._broker.where} rejected the message for {routing_key!r}"
