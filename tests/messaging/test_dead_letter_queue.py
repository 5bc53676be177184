"""The tools for a dead-letter queue lose nothing."""

import asyncio

import pytest
from kombu.connection import Connection

from holdfast.messaging import (
    DeadLetterQueue,
    QueueSpec,
    RabbitPublisher,
    UnknownDeadMessage,
)
from holdfast.outbox import MessageRefused


async def filled(server, queue, *ids, **headers):
    """Return the tools for a queue with messages of these ids."""
    spec = QueueSpec(queue)
    publisher = RabbitPublisher(server.url(), [spec])
    await publisher.open()
    for identifier in ids:
        body = f'"{identifier}"'.encode()
        await publisher.send(body, queue, message_id=identifier, headers=headers)
    await publisher.close()
    return DeadLetterQueue(server.url(), spec)


def test_listing_and_showing_leave_the_messages_where_they_are(rabbitmq_server, queue_name):
    async def scenario():
        letters = await filled(rabbitmq_server, queue_name, "a", "b", "c", lastError="oops")
        for _ in range(2):
            assert [letter.message_id for letter in await letters.list()] == ["a", "b", "c"]
        assert len(await letters.list(limit=2)) == 2
        shown = await letters.get("b")
        assert (shown.body, shown.headers["lastError"]) == (b'"b"', "oops")
        assert await letters.get("z") is None

    asyncio.run(scenario())


def test_a_requeued_message_has_its_body_and_a_fresh_budget(rabbitmq_server, queue_name):
    async def scenario():
        home = await filled(rabbitmq_server, f"{queue_name}.home")
        about = {"originalQueue": f"{queue_name}.home", "attemptsMade": 3, "tenant": "x"}
        letters = await filled(rabbitmq_server, queue_name, "a", "b", **about)
        assert (await letters.requeue("b")).message_id == "b"
        assert [letter.message_id for letter in await letters.list()] == ["a"]
        (back,) = await home.list()
        assert (back.message_id, back.body, back.headers) == ("b", b'"b"', {
            "tenant": "x", "holdfast_round": 1,
        })  # fmt: skip

    asyncio.run(scenario())


def test_a_message_that_cannot_be_requeued_stays(rabbitmq_server, queue_name):
    async def scenario():
        letters = await filled(rabbitmq_server, queue_name, "a")
        with pytest.raises(MessageRefused, match="does not say which queue"):
            await letters.requeue("a")
        with pytest.raises(MessageRefused, match="there is no queue 'nowhere'"):
            await letters.requeue("a", to="nowhere")
        with pytest.raises(UnknownDeadMessage):
            await letters.requeue("z", to=queue_name)
        assert [letter.message_id for letter in await letters.list()] == ["a"]

    asyncio.run(scenario())


def test_a_discarded_message_is_gone(rabbitmq_server, queue_name):
    async def scenario():
        letters = await filled(rabbitmq_server, queue_name, "a", "b")
        assert (await letters.discard("a")).message_id == "a"
        with pytest.raises(UnknownDeadMessage):
            await letters.discard("a")
        assert [letter.message_id for letter in await letters.list()] == ["b"]

    asyncio.run(scenario())


def test_a_letter_of_celery_is_known_by_the_id_of_its_task(rabbitmq_server, queue_name):
    """Kombu gives messages no id of their own."""

    async def scenario():
        home = await filled(rabbitmq_server, f"{queue_name}.home")
        letters = await filled(rabbitmq_server, queue_name)
        with Connection(rabbitmq_server.url()) as connection:
            for task_id in ("t1", "t2"):
                about = {"id": task_id, "task": "grade", "originalQueue": f"{queue_name}.home"}
                connection.Producer().publish([[], {}], routing_key=queue_name, headers=about)
        assert [letter.message_id for letter in await letters.list()] == ["t1", "t2"]
        await letters.requeue("t2")
        await letters.discard("t1")
        assert [letter.message_id for letter in await home.list()] == ["t2"]
        assert await letters.list() == ()

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_message_without_any_id_has_a_stable_address(rabbitmq_server, queue_name, kind):
    async def scenario():
        home = await filled(rabbitmq_server, f"{queue_name}.home")
        letters = DeadLetterQueue(rabbitmq_server.url(), QueueSpec(queue_name, kind))
        assert await letters.list() == ()
        with Connection(rabbitmq_server.url()) as connection:
            for number in range(3):
                connection.Producer().publish({"n": number}, routing_key=queue_name)
        first, second, third = [letter.message_id for letter in await letters.list()]
        assert len({first, second, third}) == 3
        assert [letter.message_id for letter in await letters.list()] == [first, second, third]
        assert (await letters.get(second)).body == b'{"n": 1}'
        await letters.requeue(second, to=f"{queue_name}.home")
        assert (await letters.discard(first)).body == b'{"n": 0}'
        assert [letter.message_id for letter in await letters.list()] == [third]
        assert [letter.body for letter in await home.list()] == [b'{"n": 1}']

    asyncio.run(scenario())
