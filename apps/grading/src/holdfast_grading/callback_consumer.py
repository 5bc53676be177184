"""Take the callbacks of workers from the broker; what cannot be stored is dead-lettered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast import Engine, Exponential, StoreUnavailable
from holdfast.messaging import Consumer, Delivery, QueueSpec
from holdfast_grading import callbacks
from holdfast_grading.messages import CALLBACK, DEAD_LETTERS, GradingCallback
from holdfast_grading.submissions import store_time

_QUEUE = QueueSpec(CALLBACK, dead_letter_to=DEAD_LETTERS)
_WAITS = Exponential(base=0.2, multiplier=2, cap=10.0, jitter=0.0)
_STOPPING = 5.0
"""Seconds in which callbacks may be finished when the server stops; the others come again."""


@asynccontextmanager
async def consuming(engine: Engine, url: str) -> AsyncIterator[Consumer]:
    """Consume the callbacks at the RabbitMQ at `url` while the block runs.

    A callback that does not have the agreed form, or names no request of ours, goes to the dead
    letters with its reason. A broker or a store that does not answer is waited for.

    Raises:
        PublisherMisconfigured: the address cannot be one.
    """

    async def handle(delivery: Delivery) -> None:
        await store_callback(engine, GradingCallback.from_json(delivery.body))

    consumer = Consumer(url, _QUEUE, handle, dead_letters=QueueSpec(DEAD_LETTERS))
    running = asyncio.create_task(consumer.run())
    try:
        yield consumer
    finally:
        consumer.stop()
        await asyncio.wait({running}, timeout=_STOPPING)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def store_callback(engine: Engine, callback: GradingCallback) -> None:
    """Store a callback, however long the store is away; what counts is when it came."""
    came, failures = engine.clock.monotonic(), 0
    while True:
        try:
            # By the clock that has set the deadline.
            now = await store_time(engine)
            received_at = now - (engine.clock.monotonic() - came)
            await callbacks.receive(engine, callback, received_at)
        except StoreUnavailable:
            failures += 1
            await engine.clock.sleep_async(_WAITS.nominal(failures))
        else:
            return
