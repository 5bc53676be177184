"""Consume a RabbitMQ queue: acknowledge what was handled, dead-letter what cannot be.

A message may come more than once: after a lost connection, or after a crash. The handler records
its request id in the inbox, in the transaction of its effect, to handle it once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import HoldfastError
from holdfast.messaging.broker import Broker, QueueSpec
from holdfast.outbox.ports import PublisherUnavailable
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.categorize import diagnose
from holdfast.resilience.policy import RetryPolicy
from holdfast.resilience.result import RetryResult
from holdfast.resilience.service import RetryService

if TYPE_CHECKING:
    from aio_pika.abc import AbstractIncomingMessage

_log = logging.getLogger("holdfast.messaging")

_RECONNECT = Exponential(base=0.2, multiplier=2, cap=10.0, jitter=0.0)
_PATIENT = RetryPolicy(max_attempts=8, backoff=Exponential(base=0.5, multiplier=2, cap=30.0))
_LONGEST_ERROR = 500
_PUBLISHING = 30.0
"""Seconds that the broker may take to confirm a dead letter."""
_BEFORE_REQUEUE = 1.0
"""Seconds before a message goes back to the broker, which delivers it again at once."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it was received.

    Attributes:
        body: its bytes.
        message_id: the id that its publisher gave it; the same when it comes again.
        message_type: the AMQP property `type`.
        headers: the AMQP headers.
        redelivered: whether it may have been delivered before.
        received: when it came, in monotonic seconds of the consumer's clock; the same for each
            call of `handle`.
    """

    body: bytes
    message_id: str | None
    message_type: str | None
    headers: Mapping[str, Any]
    redelivered: bool
    received: float = 0.0


def _no_names(_: Delivery) -> Mapping[str, str]:
    return {}


class Consumer:
    """Hand each message of a queue to `handle`, several at a time.

    A message is acknowledged once `handle` returns. Where it raises, it is called again as `policy`
    says, while the message stays unacknowledged; after a permanent error, or the last attempt, the
    message goes to `dead_letters` with headers that say why, and is acknowledged after that. Where
    the broker does not take the dead letter, the message goes back to its queue.

    Args:
        url: `amqp://user:password@host:5672/vhost`.
        queue: the queue; declared whenever a connection is opened.
        handle: awaited with each message.
        dead_letters: the queue for messages that cannot be handled; None rejects them, so that
            the queue's own dead-letter settings apply.
        prefetch: messages at a time.
        policy: how a message is tried again.
        names: returns further headers of a dead letter, such as the request's id; must not raise.

    Raises:
        PublisherMisconfigured: the address cannot be one, or aio-pika is not installed.
    """

    def __init__(
        self,
        url: str,
        queue: QueueSpec,
        handle: Callable[[Delivery], Awaitable[object]],
        *,
        dead_letters: QueueSpec | None = None,
        prefetch: int = 20,
        policy: RetryPolicy = _PATIENT,
        names: Callable[[Delivery], Mapping[str, str]] = _no_names,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        declared = (queue,) if dead_letters is None else (dead_letters, queue)
        self._broker = Broker(url, declared, prefetch=prefetch)
        self._queue = queue
        self._handle = handle
        self._dead_letters = dead_letters
        self._policy = policy
        self._names = names
        self._clock = clock
        self._service = RetryService(clock=clock)
        self._stopping = asyncio.Event()
        self._failures = 0
        self._running: set[asyncio.Task[None]] = set()
        self.consuming = asyncio.Event()
        """Set while the broker delivers."""

    def stop(self) -> None:
        """Take no more messages; `run` returns after those that are being handled."""
        self._stopping.set()

    async def run(self) -> None:
        """Consume until `stop` is called; a broker that does not answer is waited for."""
        try:
            while not self._stopping.is_set():
                try:
                    await self._consume()
                except PublisherUnavailable as error:
                    self._failures += 1
                    if self._failures == 1:
                        _log.warning("%s is not consumed: %s", self._queue.name, error)
                    await self._wait(self._clock.sleep_async(_RECONNECT.nominal(self._failures)))
            while self._running:
                await asyncio.wait(self._running)
        finally:
            for task in tuple(self._running):
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._broker.close()

    async def _consume(self) -> None:
        """Consume on one connection until it is lost or the consumer is stopped."""
        channel = await self._broker.channel()
        lost = asyncio.Event()
        try:
            queue = await channel.get_queue(self._queue.name, ensure=False)
            channel.close_callbacks.add(lambda *_: lost.set())
            # A broker that deletes the queue cancels the consumer and keeps the connection.
            below = await channel.get_underlay_channel()
            below.on_consumer_cancel_callbacks.add(lambda _: lost.set())
            tag = await queue.consume(self._received)
        except Exception as error:
            raise self._broker.explained(error) from error
        self._failures = 0
        self.consuming.set()
        try:
            await self._wait(lost.wait())
            if not lost.is_set():
                await queue.cancel(tag)
        finally:
            self.consuming.clear()
        if lost.is_set():
            await self._broker.close()
            raise PublisherUnavailable(f"{self._broker.where}: the consumer was cancelled or lost")

    async def _received(self, message: "AbstractIncomingMessage") -> None:
        task = asyncio.create_task(self._handled(message))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _handled(self, message: "AbstractIncomingMessage") -> None:
        delivery = Delivery(
            message.body, message.message_id, message.type, message.headers,
            bool(message.redelivered), self._clock.monotonic(),
        )  # fmt: skip

        async def attempt() -> object:
            return await self._handle(delivery)

        result = await self._service.execute(attempt, self._policy, self._queue.name)
        try:
            if result.ok:
                await message.ack()
            else:
                await self._dead_letter(message, delivery, result)
        except Exception as error:
            _log.warning("message %s will come again: %s", message.message_id, error)
            await self._wait(self._clock.sleep_async(_BEFORE_REQUEUE))
            # Where the connection is gone, the broker delivers the message again by itself.
            with contextlib.suppress(Exception):
                await message.nack(requeue=True)

    async def _dead_letter(
        self,
        message: "AbstractIncomingMessage",
        delivery: Delivery,
        result: RetryResult[object],
    ) -> None:
        error = result.error
        assert error is not None
        _log.error(
            "message %s of %s cannot be handled after %d attempts: %r",
            message.message_id, self._queue.name, result.attempts, error,
        )  # fmt: skip
        if self._dead_letters is None:
            await message.reject(requeue=False)
            return
        from aio_pika import Message

        wall = self._clock.wall()
        own = error.code if isinstance(error, HoldfastError) else None
        letter = Message(
            message.body,
            message_id=message.message_id,
            type=message.type,
            content_type=message.content_type,
            headers={
                **message.headers,
                **self._names(delivery),
                "failureReason": str(own or diagnose(error, wall_now=wall).code),
                "attemptsMade": result.attempts,
                "lastError": (str(error) or type(error).__name__)[:_LONGEST_ERROR],
                "timestamp": datetime.fromtimestamp(wall, UTC).isoformat(),
                "originalQueue": self._queue.name,
            },
            delivery_mode=2,
        )
        channel = await self._broker.channel()
        await channel.default_exchange.publish(
            letter, self._dead_letters.name, mandatory=True, timeout=_PUBLISHING
        )
        await message.ack()

    async def _wait(self, waiting: Any) -> None:
        """Await `waiting`, at most until the consumer is stopped."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
