"""Publish to RabbitMQ with confirms: a message counts once the broker has taken it.

Every message is persistent and mandatory: one that no queue is bound for is refused instead of
being dropped. The connection is opened when it is needed and opened anew after it has closed.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import HoldfastError
from holdfast.messaging.broker import Broker, QueueSpec
from holdfast.outbox.model import MessageClaim
from holdfast.outbox.ports import MessageRefused, MessageUnconfirmed, PublisherUnavailable

if TYPE_CHECKING:
    from aiormq import spec
    from aiormq.channel import Channel as DriverChannel

JSON = "application/json"
_PERSISTENT = 2
"""AMQP's delivery mode of a message that a durable queue writes to disk."""
_MOST_SUSPECTS = 1000
"""Messages that are remembered after RabbitMQ has closed a channel because of one of them."""


class ClosedByBroker(PublisherUnavailable):
    """RabbitMQ closed the channel or the connection because of a message that it cannot take."""


def by_message_type(message: MessageClaim) -> str:
    """Return the routing key of a message: its type, which is the name of its queue."""
    return message.message_type


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _headers(message: MessageClaim) -> dict[str, Any]:
    return {} if message.headers is None else dict(json.loads(message.headers))


class RabbitPublisher:
    """Implements `Publisher` for RabbitMQ.

    The body of a message is its payload, the AMQP property `message_id` its id, `type` its type,
    and the header `aggregate_id` what it speaks of. Its own headers `correlation_id` and `reply_to`
    become the AMQP properties of these names.

    Where RabbitMQ closes the channel or the connection because of a message, such as one with
    headers above 128 KiB, all messages on their way fail, and it is not known which one it was. So
    these are published again one at a time on a connection of their own, where only the message at
    fault is refused.

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
        self._for_suspects = Broker(url, timeout=connect_timeout)
        from aiormq import spec  # installed, or there would be no brokers

        self._properties = spec.Basic.Properties
        self._suspects: dict[str, None] = {}
        self._one_suspect = asyncio.Lock()
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
        await self._for_suspects.close()

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
        given = dict(headers or {})
        # Not aio_pika.Message, which would be made only to be turned into these.
        properties = self._properties(
            message_id=message_id,
            message_type=message_type,
            correlation_id=_text(given.pop("correlation_id", None)),
            reply_to=_text(given.pop("reply_to", None)),
            headers=given,
            content_type=content_type,
            delivery_mode=_PERSISTENT,
        )
        if message_id in self._suspects:
            await self._send_alone(message_id, body, properties, routing_key)
            return
        try:
            await self._send_on(self._broker, body, properties, routing_key)
        except ClosedByBroker:
            self._suspects[message_id] = None
            if len(self._suspects) > _MOST_SUSPECTS:
                del self._suspects[next(iter(self._suspects))]
            raise

    async def _send_alone(
        self, message_id: str, body: bytes, properties: "spec.Basic.Properties", routing_key: str
    ) -> None:
        async with self._one_suspect:
            try:
                await self._send_on(self._for_suspects, body, properties, routing_key)
            except ClosedByBroker as error:
                raise MessageRefused(str(error)) from error
        self._suspects.pop(message_id, None)

    async def _send_on(
        self, broker: Broker, body: bytes, properties: "spec.Basic.Properties", routing_key: str
    ) -> None:
        channel = await broker.channel()
        try:
            below = cast("DriverChannel", await channel.get_underlay_channel())
            # Exchange.publish of aio-pika would let each message wait until the one before it is
            # on the socket. The confirms that are due already limit how many are on their way.
            await below.basic_publish(
                body,
                exchange=self._exchange,
                routing_key=routing_key,
                properties=properties,
                mandatory=True,
                timeout=self._timeout,
                wait=False,
            )
        except TimeoutError:
            broker.retire(channel)
            raise MessageUnconfirmed(
                f"{broker.where} did not confirm within {self._timeout:g} s"
            ) from None
        except Exception as error:
            failure = self._failure(error, broker, routing_key)
            if failure is None:
                raise
            raise failure from error

    def _failure(self, error: Exception, broker: Broker, routing_key: str) -> HoldfastError | None:
        """Return what an error of the driver means for a message; None where it is a bug."""
        from aio_pika.exceptions import (
            CONNECTION_EXCEPTIONS,
            ChannelPreconditionFailed,
            DeliveryError,
        )
        from aiormq.exceptions import ConnectionFrameError, ConnectionSyntaxError

        if isinstance(error, DeliveryError):
            return MessageRefused(self._refusal(error, routing_key))
        if isinstance(
            error, ChannelPreconditionFailed | ConnectionFrameError | ConnectionSyntaxError
        ):
            return ClosedByBroker(f"{broker.where} does not take the message: {error}")
        return broker.explained(error) if isinstance(error, CONNECTION_EXCEPTIONS) else None

    def _refusal(self, error: Any, routing_key: str) -> str:
        returned = getattr(error.frame, "reply_text", None)
        if returned:
            exchange = f"exchange {self._exchange!r}" if self._exchange else "the default exchange"
            return f"{returned}: {exchange} leads to no queue for {routing_key!r}"
        return f"{self._broker.where} rejected the message for {routing_key!r}"
