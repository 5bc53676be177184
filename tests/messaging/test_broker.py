"""The connection to RabbitMQ: what it declares, and what its errors mean."""

import asyncio
import socket
import sys

import pytest

from holdfast.messaging.broker import Broker, QueueSpec, describe
from holdfast.outbox import PublisherMisconfigured, PublisherUnavailable


def test_a_queue_is_durable_of_its_kind_and_names_its_dead_letters():
    spec = QueueSpec("grading.request", "quorum", dead_letter_to="grading.dlq", delivery_limit=5)
    assert spec.arguments == {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "grading.dlq",
        "x-delivery-limit": 5,
    }
    assert QueueSpec("q").arguments == {"x-queue-type": "classic"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://ann:secret@mq.example:5671/orders", "RabbitMQ at mq.example:5671/orders"),
        ("amqps://ann:secret@mq.example/", "RabbitMQ at mq.example"),
    ],
)
def test_an_address_is_shown_without_the_account(url, shown):
    assert describe(url) == shown


@pytest.mark.parametrize("url", ["", "http://mq", "amqp://", "amqp://u:p@h:99999999", "mq:5672"])
def test_an_address_that_cannot_be_one_is_refused_without_being_repeated(url):
    with pytest.raises(PublisherMisconfigured, match=r"^RABBITMQ_URL must be an address like amqp"):
        Broker(url)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "aio_pika", None)
    with pytest.raises(PublisherMisconfigured, match=r"pip install 'holdfast\[rabbitmq\]'"):
        Broker("amqp://guest:guest@127.0.0.1/")


def open_error(broker):
    async def scenario():
        try:
            await broker.channel()
        finally:
            await broker.close()

    with pytest.raises(PublisherUnavailable) as caught:
        asyncio.run(scenario())
    assert "guest" not in str(caught.value)
    return caught.value


def test_a_wrong_password_is_said_in_one_clear_line(rabbitmq_server):
    error = open_error(Broker(rabbitmq_server.url("wrong")))
    assert isinstance(error, PublisherMisconfigured)
    assert str(error).endswith("refuses the user name or the password; check RABBITMQ_URL")


def test_an_unknown_virtual_host_is_said_in_one_clear_line(rabbitmq_server):
    error = open_error(Broker(rabbitmq_server.url() + "nowhere"))
    assert isinstance(error, PublisherMisconfigured)
    assert "refuses the virtual host" in str(error)


def test_a_queue_that_exists_with_other_settings_is_said(rabbitmq_server, queue_name):
    async def declare():
        broker = Broker(rabbitmq_server.url(), [QueueSpec(queue_name, "classic")])
        await broker.channel()
        await broker.close()

    asyncio.run(declare())
    error = open_error(Broker(rabbitmq_server.url(), [QueueSpec(queue_name, "quorum")]))
    assert isinstance(error, PublisherMisconfigured)
    assert "with other settings" in str(error)


def test_a_broker_that_does_not_answer_is_unavailable():
    async def scenario():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            broker = Broker(f"amqp://guest:guest@127.0.0.1:{port}/", timeout=0.2)
            with pytest.raises(PublisherUnavailable, match="does not answer in time"):
                await broker.channel()
        refused = Broker(f"amqp://guest:guest@127.0.0.1:{port}/")
        with pytest.raises(PublisherUnavailable, match="cannot be used"):
            await refused.channel()

    asyncio.run(scenario())


def test_a_closed_connection_is_opened_anew(rabbitmq_server):
    async def scenario():
        broker = Broker(rabbitmq_server.url())
        first = await broker.channel()
        assert await broker.channel() is first
        await broker.close()
        assert not broker.is_open
        assert await broker.channel() is not first
        await broker.close()
        await broker.close()

    asyncio.run(scenario())
