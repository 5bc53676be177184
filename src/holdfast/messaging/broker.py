"""One connection to RabbitMQ: opened when it is needed, and opened anew after it has closed.

aio-pika's own reconnecting connection is not used: it has been seen to hang, and it cannot say
which messages were lost with the old connection. Here everything is made anew, and a publisher that
waits for a confirm on the old connection gets an error.
"""

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from holdfast.outbox.ports import PublisherMisconfigured, PublisherUnavailable

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection

_log = logging.getLogger("holdfast.messaging")

_CLOSING = 2.0
_HEARTBEAT = 10
"""Seconds of silence after which either side takes the other for gone, times three."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A durable queue that is declared whenever a connection is opened.

    Args:
        name: its name, and the routing key of the default exchange that leads to it.
        kind: `quorum` for a cluster of three nodes or more: such queues are replicated and limit
            deliveries. On a single node choose `classic`: after a crash of its only node, a quorum
            queue of RabbitMQ 3.10 was seen to stay without a leader.
        dead_letter_to: the queue for messages that are rejected or expire. Without one they are
            dropped.
        delivery_limit: deliveries after which a quorum queue rejects a message itself; 20 by
            default in RabbitMQ 4, without a limit before that.
    """

    name: str
    kind: Literal["classic", "quorum"] = "classic"
    dead_letter_to: str | None = None
    delivery_limit: int | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that RabbitMQ takes."""
        arguments: dict[str, Any] = {"x-queue-type": self.kind}
        if self.dead_letter_to is not None:
            arguments["x-dead-letter-exchange"] = ""
            arguments["x-dead-letter-routing-key"] = self.dead_letter_to
        if self.delivery_limit is not None:
            arguments["x-delivery-limit"] = self.delivery_limit
        return arguments


class Broker:
    """A channel with confirms to the RabbitMQ at `url`.

    Args:
        url: `amqp://user:password@host:5672/vhost`.
        queues: declared whenever a connection is opened.
        prefetch: messages that the channel may have unacknowledged.
        timeout: seconds that connecting may take.
    """

    def __init__(
        self,
        url: str,
        queues: Sequence[QueueSpec] = (),
        *,
        prefetch: int | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._aio_pika = load_aio_pika()
        self._url = url
        self._queues = tuple(queues)
        self._prefetch = prefetch
        self._timeout = timeout
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._retired: list[AbstractChannel] = []
        self._lock = asyncio.Lock()
        self.where = describe(url)
        """The address without the account."""

    @property
    def is_open(self) -> bool:
        """Whether the channel can be used."""
        return self._is_connected and self._channel is not None and not self._channel.is_closed

    @property
    def _is_connected(self) -> bool:
        connection = self._connection
        # A connection that the broker has closed is disconnected; `is_closed` is for one of ours.
        return connection is not None and connection.connected.is_set()

    async def channel(self) -> "AbstractChannel":
        """Return the channel; connect and declare the queues where there is none.

        Raises:
            PublisherUnavailable: the broker does not answer.
            PublisherMisconfigured: it refuses the account, the virtual host or a queue.
        """
        if self.is_open:
            assert self._channel is not None
            return self._channel
        async with self._lock:
            if not self.is_open:
                try:
                    async with asyncio.timeout(self._timeout):
                        self._channel = await self._opened()
                except Exception as error:
                    await self.close()
                    raise self.explained(error) from error
            assert self._channel is not None
            return self._channel

    def retire(self, channel: "AbstractChannel") -> None:
        """Use another channel than `channel` from now on: a confirm on it did not come.

        Confirms that are still due on it may come for as long as the next channel is in use. After
        a restart of the broker a channel may never get one, though its connection is sound.
        """
        if channel is self._channel:
            self._channel = None
            self._retired.append(channel)

    async def _opened(self) -> "AbstractChannel":
        """Return a new channel, on a new connection where the present one is closed."""
        if not self._is_connected:
            await self.close()
            self._connection = await self._aio_pika.connect(
                self._url, heartbeat=_HEARTBEAT, client_properties={"connection_name": "holdfast"}
            )
        while len(self._retired) > 1:
            await self._retired.pop(0).close()
        assert self._connection is not None
        channel = self._connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.initialize()
        if self._prefetch is not None:
            await channel.set_qos(prefetch_count=self._prefetch)
        for queue in self._queues:
            await channel.declare_queue(queue.name, durable=True, arguments=queue.arguments)
        return channel

    async def close(self) -> None:
        """Disconnect. Harmless if repeated."""
        connection, self._connection, self._channel = self._connection, None, None
        self._retired.clear()
        if connection is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CLOSING):
                    await connection.close()

    def explained(self, error: BaseException) -> PublisherUnavailable:
        """Return what an error of the driver means."""
        errors = self._aio_pika.exceptions
        if isinstance(error, PublisherUnavailable):
            return error
        if isinstance(error, errors.AuthenticationError | errors.ProbableAuthenticationError):
            return PublisherMisconfigured(
                f"{self.where} refuses the user name or the password; check RABBITMQ_URL"
            )
        if isinstance(error, errors.ChannelPreconditionFailed):
            return PublisherMisconfigured(
                f"{self.where} has a queue of the same name with other settings: {error}"
            )
        if "Connection.Close" in str(error):  # in answer to the virtual host's name
            return PublisherMisconfigured(
                f"{self.where} refuses the virtual host; check its name in RABBITMQ_URL"
            )
        if isinstance(error, TimeoutError):
            return PublisherUnavailable(f"{self.where} does not answer in time")
        return PublisherUnavailable(
            f"{self.where} cannot be used: {str(error) or type(error).__name__}"
        )


def load_aio_pika() -> Any:
    """Return the module aio_pika.

    Raises:
        PublisherMisconfigured: it is not installed.
    """
    try:
        return importlib.import_module("aio_pika")
    except ModuleNotFoundError as error:
        if error.name != "aio_pika":
            raise
        raise PublisherMisconfigured(
            "RabbitMQ needs aio-pika: pip install 'holdfast[rabbitmq]'"
        ) from None


def describe(url: str) -> str:
    """Return host, port and virtual host of `url`, never the account.

    Raises:
        PublisherMisconfigured: it is not an address of RabbitMQ.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        named = parts.scheme in {"amqp", "amqps"} and bool(parts.hostname)
    except ValueError:
        named, port, parts = False, "", urlsplit("")
    if not named:
        raise PublisherMisconfigured(
            "RABBITMQ_URL must be an address like amqp://user:password@host:5672/vhost, with "
            "special characters in the password written as %XX"
        )
    vhost = parts.path if parts.path not in {"", "/"} else ""
    return f"RabbitMQ at {parts.hostname}{port}{vhost}"
