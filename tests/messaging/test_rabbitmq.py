"""Publishing to a real RabbitMQ: confirmed, routed, and never lost with the connection."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import aio_pika
import aiormq
import pytest
from tests.support.silent_proxy import SilentProxy
from tests.support.waiting import until

from holdfast.messaging import QueueSpec, RabbitPublisher, rabbitmq
from holdfast.messaging.broker import Broker
from holdfast.outbox import (
    MessageClaim,
    MessageDraft,
    MessageRefused,
    MessageStatus,
    MessageUnconfirmed,
    PublisherUnavailable,
    RelayOptions,
)
from holdfast.resilience.backoff import Exponential

QUICK = RelayOptions(
    poll_interval=0.2, max_attempts=2, backoff=Exponential(base=0.02, multiplier=1, jitter=0)
)


async def received(url, queue, count):
    """Return the next `count` messages of `queue`, each as (message id, properties, body)."""
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        found = []
        source = await channel.get_queue(queue, ensure=False)

        async def next_one():
            message = await source.get(fail=False)
            if message is not None:
                await message.ack()
                found.append(message)
            return len(found) == count

        await until(next_one)
        return found


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_message_arrives_persistent_with_its_id_type_and_aggregate(
    rabbitmq_server, queue_name, kind
):
    async def scenario():
        publisher = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(queue_name, kind)])
        await publisher.publish(
            MessageClaim(1, 1, "f" * 32, "order-7", queue_name, '{"n":7}', 0, 0.0)
        )
        await publisher.close()
        (message,) = await received(rabbitmq_server.url(), queue_name, 1)
        assert (message.message_id, message.type) == ("f" * 32, queue_name)
        assert (message.body, message.headers["aggregate_id"]) == (b'{"n":7}', "order-7")
        assert (message.content_type, message.delivery_mode) == ("application/json", 2)

    asyncio.run(scenario())


def test_a_correlation_id_that_is_a_number_is_sent_as_text(rabbitmq_server, queue_name):
    async def scenario():
        publisher = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(queue_name, "classic")])
        message = MessageClaim(1, 1, "f" * 32, "order-7", queue_name, "{}", 0, 0.0)
        await publisher.publish(replace(message, headers='{"correlation_id": 42}'))
        await publisher.close()
        (message,) = await received(rabbitmq_server.url(), queue_name, 1)
        assert message.correlation_id == "42"

    asyncio.run(scenario())


def test_a_message_that_no_queue_is_bound_for_is_refused(rabbitmq_server):
    async def scenario():
        publisher = RabbitPublisher(rabbitmq_server.url())
        with pytest.raises(MessageRefused, match="leads to no queue for 'nowhere'"):
            await publisher.send(b"{}", "nowhere", message_id="a")
        named = RabbitPublisher(rabbitmq_server.url(), exchange="amq.direct")
        with pytest.raises(MessageRefused, match=r"exchange 'amq\.direct' leads to no queue"):
            await named.send(b"{}", "nowhere", message_id="a")
        missing = RabbitPublisher(rabbitmq_server.url(), exchange="no.such.exchange")
        with pytest.raises(PublisherUnavailable, match="no exchange"):
            await missing.send(b"{}", "nowhere", message_id="a")
        for each in (publisher, named, missing):
            await each.close()

    asyncio.run(scenario())


def test_a_message_that_a_full_queue_rejects_is_refused(rabbitmq_server, queue_name):
    async def scenario():
        connection = await aio_pika.connect(rabbitmq_server.url())
        async with connection, connection.channel() as channel:
            full = {"x-max-length": 0, "x-overflow": "reject-publish"}
            await channel.declare_queue(queue_name, durable=True, arguments=full)
        publisher = RabbitPublisher(rabbitmq_server.url())
        with pytest.raises(MessageRefused, match="rejected the message"):
            await publisher.send(b"{}", queue_name, message_id="a")
        await publisher.close()

    asyncio.run(scenario())


def test_after_a_confirm_that_does_not_come_another_channel_is_used(
    rabbitmq_server, queue_name, monkeypatch
):
    async def silence(*_, timeout, **__):
        async with asyncio.timeout(timeout):
            await asyncio.sleep(60)

    async def scenario():
        publisher = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(queue_name)], timeout=0.05)
        channels = [await publisher._broker.channel()]
        for number in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(aiormq.channel.Channel, "basic_publish", silence)
                with pytest.raises(MessageUnconfirmed, match=r"did not confirm within 0\.05 s"):
                    await publisher.send(b"{}", queue_name, message_id="a")
            channels.append(await publisher._broker.channel())
            publisher._timeout = 30
            await publisher.send(b"{}", queue_name, message_id=f"b{number}")
            publisher._timeout = 0.05
        assert len(set(map(id, channels))) == 4
        assert [channel.is_closed for channel in channels] == [True, True, False, False]
        await publisher.close()

    asyncio.run(scenario())


def test_a_publish_on_a_lost_connection_fails_and_the_next_one_connects_anew(
    rabbitmq_server, queue_name
):
    async def scenario():
        async with SilentProxy(rabbitmq_server.url()).serving() as proxy:
            publisher = RabbitPublisher(proxy.url, [QueueSpec(queue_name)])
            await publisher.open()
            proxy.cut()
            await until(lambda: not publisher._broker.is_open)
            await publisher.send(b"{}", queue_name, message_id="a")
            await publisher.close()
        assert len(await received(rabbitmq_server.url(), queue_name, 1)) == 1

    asyncio.run(scenario())


def test_a_poison_message_fails_and_the_others_are_published(database, rabbitmq_server, queue_name):
    async def scenario():
        async with database.engine() as engine:
            publisher = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(queue_name)])
            await publisher.open()  # declares the queue that this test reads
            (poison,) = await database.add(engine, "order-1", message_type="no.such.queue")
            others = await database.add(engine, *"abcdef", message_type=queue_name)
            relay = engine.relay(publisher, QUICK)
            running = asyncio.create_task(relay.run())
            found = await received(rabbitmq_server.url(), queue_name, 6)
            await until(lambda: _failed(engine, poison))
            relay.stop()
            await running
            assert sorted(message.message_id for message in found) == sorted(others)
            assert "NO_ROUTE" in (await engine.outbox.get(poison)).error_message

    asyncio.run(scenario())


@pytest.mark.parametrize("headers", [{"CC": "no list"}, {"notes": "x" * 140_000}])
def test_a_message_that_rabbitmq_closes_the_connection_for_fails_alone(
    database, rabbitmq_server, queue_name, headers
):
    async def scenario():
        async with database.engine() as engine:
            publisher = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(queue_name)])
            drafts = [MessageDraft(each, queue_name, {"at": 0}) for each in "abcdef"]
            poison = MessageDraft("poison", queue_name, {"at": 0}, headers)
            await engine.handling.add([*drafts[:3], poison, *drafts[3:]])
            relay = engine.relay(publisher, QUICK)
            running = asyncio.create_task(relay.run())
            await until(lambda: _statuses(engine, failed=1, published=6))
            assert relay.waits_for is None
            await engine.handling.add(drafts)
            await until(lambda: _statuses(engine, failed=1, published=12))
            relay.stop()
            await running
            (failed,) = (await engine.outbox.list(MessageStatus.FAILED)).messages
            assert failed.aggregate_id == "poison"
            assert "does not take the message" in failed.error_message

    asyncio.run(scenario())


def test_a_bounded_number_of_suspects_is_remembered(monkeypatch):
    async def refused(*_):
        raise rabbitmq.ClosedByBroker("it does not take the message")

    async def scenario():
        publisher = RabbitPublisher("amqp://127.0.0.1:1/")
        monkeypatch.setattr(publisher, "_send_on", refused)
        for message_id in "abc":
            with pytest.raises(PublisherUnavailable):
                await publisher.send(b"{}", "orders", message_id=message_id)
        assert list(publisher._suspects) == ["b", "c"]
        with pytest.raises(MessageRefused):
            await publisher.send(b"{}", "orders", message_id="c")

    monkeypatch.setattr(rabbitmq, "_MOST_SUSPECTS", 2)
    asyncio.run(scenario())


async def _statuses(engine, **expected):
    found = (await engine.outbox.list()).messages
    return Counter(message.status.value for message in found) == expected


async def _failed(engine, message_id):
    return (await engine.outbox.get(message_id)).status is MessageStatus.FAILED


@pytest.mark.timeout(180)
def test_every_message_is_published_though_the_broker_is_killed_under_load(
    database, rabbitmq_server, settled_queue
):
    async def scenario():
        async with database.engine() as engine:
            publisher = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(settled_queue)])
            relay = engine.relay(publisher, QUICK)
            running = asyncio.create_task(relay.run())
            added = []

            async def load(rounds):
                for number in range(rounds):
                    added.extend(
                        await database.add(
                            engine, *(f"order-{n}" for n in range(10)), message_type=settled_queue
                        )
                    )
                    await asyncio.sleep(0.01 * (number % 3))

            await load(10)
            loading = asyncio.create_task(load(30))
            await asyncio.to_thread(rabbitmq_server.kill)
            await loading
            await until(lambda: relay.waits_for)
            await asyncio.to_thread(rabbitmq_server.start)
            await until(lambda: _drained(engine), 60)
            relay.stop()
            await running
            ids = await everything(rabbitmq_server.url(), settled_queue)
            assert set(ids) == set(added)
            stored = await engine.outbox.list(limit=1000)
            assert {message.status for message in stored.messages} == {MessageStatus.PUBLISHED}
            assert [message.id for message in stored.messages if message.retry_count > 1] == []

    asyncio.run(scenario())


def test_a_message_that_does_not_get_through_is_warned_of_and_published_in_the_end(
    database, rabbitmq_server, queue_name, caplog
):
    """Such as a callback whose queue is missing."""

    async def scenario():
        async with database.engine() as engine:
            options = replace(QUICK, stale_after=0.1, max_attempts=1000)
            relay = engine.relay(RabbitPublisher(rabbitmq_server.url()), options)
            running = asyncio.create_task(relay.run())
            (added,) = await database.add(engine, "a", message_type=queue_name)
            await until(lambda: "the outbox lags: 1 messages are pending" in caplog.text)
            owner = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(queue_name)])
            await owner.open()
            await owner.close()
            await until(lambda: _drained(engine))
            relay.stop()
            await running
            assert await everything(rabbitmq_server.url(), queue_name) == [added]

    with caplog.at_level("WARNING", "holdfast.relay"):
        asyncio.run(scenario())


async def _drained(engine):
    return (await engine.outbox.backlog()).pending == 0


async def everything(url, queue):
    """Return the ids of all messages in `queue`, a repeated one as often as it is there."""
    broker = Broker(url)
    source = await (await broker.channel()).get_queue(queue, ensure=False)
    found = []
    while (message := await source.get(fail=False, timeout=30)) is not None:
        assert json.loads(message.body)["at"] < 10
        found.append(message.message_id)
        await message.ack()
    await broker.close()
    return found
