"""Consuming a real queue: handled once where it can be, dead-lettered where it cannot."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import aio_pika
import pytest
from tests.support.silent_proxy import SilentProxy
from tests.support.waiting import until

from holdfast.errors import Permanent
from holdfast.messaging import Consumer, DeadLetterQueue, QueueSpec, RabbitPublisher
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RetryPolicy

QUICK = RetryPolicy(max_attempts=3, backoff=Exponential(base=0.01, multiplier=1, jitter=0))


@asynccontextmanager
async def consuming(consumer):
    running = asyncio.create_task(consumer.run())
    try:
        async with asyncio.timeout(30):
            await consumer.consuming.wait()
        yield
        consumer.stop()
        async with asyncio.timeout(30):
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def send(server, queue, *ids):
    publisher = RabbitPublisher(server.url())
    try:
        for identifier in ids:
            await publisher.send(json.dumps(identifier).encode(), queue, message_id=identifier)
    finally:
        await publisher.close()


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_handled_message_is_acknowledged_and_does_not_come_again(
    rabbitmq_server, queue_name, kind
):
    async def scenario():
        seen = []

        async def handle(delivery):
            seen.append((delivery.message_id, delivery.body, delivery.redelivered))

        for _ in range(2):
            consumer = Consumer(rabbitmq_server.url(), QueueSpec(queue_name, kind), handle)
            async with consuming(consumer):
                if not seen:
                    await send(rabbitmq_server, queue_name, "a", "b")
                await until(lambda: len(seen) == 2)
        assert sorted(seen) == [("a", b'"a"', False), ("b", b'"b"', False)]

    asyncio.run(scenario())


def test_a_message_is_tried_again_and_dead_lettered_with_the_reason(rabbitmq_server, queue_name):
    tries, received = [], []

    async def handle(delivery):
        tries.append(delivery.message_id)
        if delivery.message_id == "transient" and tries.count("transient") < 3:
            raise ConnectionError("the database is away")
        if delivery.message_id == "poison":
            raise Permanent("BAD_SCHEMA", "no skill")
        if delivery.message_id == "hopeless":
            received.append(delivery.received)
            raise ConnectionError("always away")

    async def scenario():
        dead = QueueSpec(f"{queue_name}.dlq")
        consumer = Consumer(
            rabbitmq_server.url(), QueueSpec(queue_name), handle, dead_letters=dead, policy=QUICK,
            names=lambda delivery: {"requestId": f"request of {delivery.message_id}"},
        )  # fmt: skip
        letters = DeadLetterQueue(rabbitmq_server.url(), dead)
        async with consuming(consumer):
            await send(rabbitmq_server, queue_name, "transient", "poison", "hopeless")
            await until(lambda: len(tries) == 7)
        found = {letter.message_id: letter for letter in await letters.list()}
        assert sorted(found) == ["hopeless", "poison"]
        headers = found["poison"].headers
        assert (headers["failureReason"], headers["lastError"]) == ("BAD_SCHEMA", "no skill")
        assert (headers["attemptsMade"], found["poison"].original_queue) == (1, queue_name)
        assert found["hopeless"].headers["attemptsMade"] == 3
        assert found["hopeless"].headers["requestId"] == "request of hopeless"
        assert datetime.fromisoformat(headers["timestamp"]).utcoffset() == timedelta(0)
        assert len(received) == 3
        assert len(set(received)) == 1  # the time of receipt, not that of an attempt
        assert found["hopeless"].body == b'"hopeless"'

    asyncio.run(scenario())


def test_without_a_dead_letter_queue_the_settings_of_the_queue_apply(rabbitmq_server, queue_name):
    async def handle(delivery):
        raise Permanent("BAD_SCHEMA", "no skill")

    async def scenario():
        dead = QueueSpec(f"{queue_name}.dlq")
        letters = DeadLetterQueue(rabbitmq_server.url(), dead)
        assert await letters.list() == ()
        queue = QueueSpec(queue_name, dead_letter_to=dead.name)
        async with consuming(Consumer(rabbitmq_server.url(), queue, handle)):
            await send(rabbitmq_server, queue_name, "a")
            (letter,) = await until(letters.list)
        assert (letter.message_id, letter.original_queue) == ("a", queue_name)

    asyncio.run(scenario())


def test_a_message_that_is_handled_while_the_connection_is_lost_comes_again(
    rabbitmq_server, queue_name
):
    async def scenario():
        seen, cut = [], asyncio.Event()

        async def handle(delivery):
            seen.append(delivery.redelivered)
            if len(seen) == 1:
                cut.set()
                await asyncio.sleep(0.2)

        async with (
            SilentProxy(rabbitmq_server.url()).serving() as proxy,
            consuming(Consumer(proxy.url, QueueSpec(queue_name), handle)),
        ):
            await send(rabbitmq_server, queue_name, "a")
            await cut.wait()
            proxy.cut()
            await until(lambda: len(seen) == 2)
        assert seen == [False, True]

    asyncio.run(scenario())


def test_a_message_that_cannot_be_dead_lettered_comes_again(rabbitmq_server, queue_name):
    async def scenario():
        seen = []
        dead = QueueSpec(f"{queue_name}.dlq")

        async def handle(delivery):
            seen.append(delivery.redelivered)
            raise Permanent("BAD_SCHEMA", "no skill")

        consumer = Consumer(
            rabbitmq_server.url(), QueueSpec(queue_name), handle, dead_letters=dead, prefetch=1
        )
        letters = DeadLetterQueue(rabbitmq_server.url(), dead)
        connection = await aio_pika.connect(rabbitmq_server.url())
        async with connection, consuming(consumer):
            await (await connection.channel()).queue_delete(dead.name)
            await send(rabbitmq_server, queue_name, "a")
            await until(lambda: len(seen) == 2)
            (letter,) = await until(letters.list)
        assert seen[:2] == [False, True]
        assert letter.message_id == "a"

    asyncio.run(scenario())


def test_each_loss_of_a_queue_that_was_consumed_is_the_first_failure(
    rabbitmq_server, queue_name, caplog
):
    async def scenario():
        async def handle(delivery):
            pass

        consumer = Consumer(rabbitmq_server.url(), QueueSpec(queue_name), handle)
        connection = await aio_pika.connect(rabbitmq_server.url())
        async with connection, consuming(consumer):
            channel = await connection.channel()
            for _ in range(2):
                await channel.queue_delete(queue_name)
                await until(lambda: not consumer.consuming.is_set())
                await until(consumer.consuming.is_set)

    asyncio.run(scenario())
    assert caplog.text.count(f"{queue_name} is not consumed") == 2


def test_a_consumer_whose_queue_is_deleted_declares_it_and_goes_on(rabbitmq_server, queue_name):
    async def scenario():
        seen = []

        async def handle(delivery):
            seen.append(delivery.message_id)

        async with consuming(Consumer(rabbitmq_server.url(), QueueSpec(queue_name), handle)):
            connection = await aio_pika.connect(rabbitmq_server.url())
            async with connection, connection.channel() as channel:
                await channel.queue_delete(queue_name)

            async def arrives():
                try:
                    await send(rabbitmq_server, queue_name, "a")
                except Exception:
                    return False
                return True

            await until(arrives)
            await until(lambda: seen)

    asyncio.run(scenario())
