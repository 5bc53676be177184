"""Take the callbacks of workers from the broker; what cannot be stored is dead-lettered."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from holdfast import Engine, Exponential, StoreUnavailable
from holdfast.messaging import Consumer, Delivery, QueueSpec
from holdfast_grading import callbacks
from holdfast_grading.messages import CALLBACK, DEAD_LETTERS, GradingCallback
from holdfast_grading.submissions import store_time

_QUEUE = QueueSpec(CALLBACK, dead_letter_to=DEAD_LETTERS)
_WAITS = Exponential(base=0.2, multiplier=2, cap=10.0, jitter=0.0)
_LONGEST_NAME = 200
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
        callback = GradingCallback.from_json(delivery.body)
        await store_callback(engine, callback, delivery.received)

    consumer = Consumer(
        url, _QUEUE, handle,
        dead_letters=QueueSpec(DEAD_LETTERS), names=names_in, clock=engine.clock,
    )  # fmt: skip
    running = asyncio.create_task(consumer.run())
    try:
        yield consumer
    finally:
        consumer.stop()
        await asyncio.wait({running}, timeout=_STOPPING)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def names_in(delivery: Delivery) -> Mapping[str, str]:
    """Return what a dead letter says of the callback in it, as far as that can be read."""
    try:
        body = json.loads(delivery.body)
    except (ValueError, RecursionError):
        body = None
    read = body if isinstance(body, dict) else {}
    return {
        "requestId": _name(read.get("requestId")) or delivery.message_id or "",
        "submissionId": _name(read.get("submissionId"))
        or _name(delivery.headers.get("aggregate_id")),
    }


def _name(given: object) -> str:
    """Return a name that a header can hold, "" for what is none."""
    return given[:_LONGEST_NAME] if isinstance(given, str) and given.isprintable() else ""


async def store_callback(engine: Engine, callback: GradingCallback, came: float) -> None:
    """Store a callback, however long the store is away; what counts is when it came.

    Args:
        came: when, in monotonic seconds of the engine's clock.
    """
    failures = 0
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
