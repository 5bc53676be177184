"""RabbitMQ for tests: one private node per session, and queues of new names for each test."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest
from tests.support.missing import do_without
from tests.support.programs import Missing
from tests.support.rabbitmq_server import RabbitServer

from holdfast.messaging import QueueSpec, RabbitPublisher

_missing: list[str] = []  # once: an installation may take minutes
_started: list[RabbitServer] = []  # one for the session, however many conftests have the fixture


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[RabbitServer]:
    """A node that the session shares; a test that kills it starts it again."""
    try:
        if _missing:
            raise Missing(_missing[0])
        if not _started:
            _started.append(RabbitServer().__enter__())
    except Missing as error:
        _missing.append(str(error))
        do_without(error)
    yield _started[0]
    _started[0].close()  # at the end of the session; harmless if repeated


@pytest.fixture(scope="session")
def settled_queue(rabbitmq_server: RabbitServer) -> str:
    """The name of a queue that survives a kill of the node: a new one may not be on disk yet."""
    name = "test.settled"

    async def declare() -> None:
        publisher = RabbitPublisher(rabbitmq_server.url(), [QueueSpec(name)])
        await publisher.open()
        await publisher.close()

    asyncio.run(declare())
    rabbitmq_server.stop()
    rabbitmq_server.start()
    return name


@pytest.fixture
def queue_name() -> str:
    """The name of a queue that no other test uses."""
    return f"test.{secrets.token_hex(6)}"
