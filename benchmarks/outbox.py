"""The outbox on PostgreSQL and RabbitMQ: what adding costs, how fast a relay is, how late it is."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import aio_pika
import asyncpg
from tests.support.postgres_server import PostgresMissing, PostgresServer
from tests.support.programs import Missing
from tests.support.rabbitmq_server import RabbitServer

from benchmarks.holdfast_queue import OURS, fresh_database
from benchmarks.measure import Goal, Row, best_rates, percentile, rate_ratios, sized
from holdfast.bootstrap import Engine
from holdfast.cli.worker_setup import rare_collections
from holdfast.messaging import QueueSpec, RabbitPublisher
from holdfast.messaging.rabbitmq import JSON
from holdfast.outbox import RelayOptions

PLAIN = "the same insert without a message"
QUEUE = QueueSpec("bench.outbox")
BODY = {"order": 7, "text": "x" * 200}
IN_FLIGHT = RelayOptions().batches * RelayOptions().batch_size
"""As many as a relay has by default."""
RAW = f"aio-pika, {IN_FLIGHT} confirms in flight"


def rows() -> list[Row]:
    """Measure all of it; nothing where a server is missing."""
    try:
        with RabbitServer() as broker, PostgresServer() as server:
            return [
                _relay(broker, server),
                _adding(server),
                _latency(broker, server),
            ]
    except (Missing, PostgresMissing) as error:
        return [Row("outbox", note=f"not measured: {error}")]


# -- throughput --------------------------------------------------------------------------------


def _relay(broker: RabbitServer, server: PostgresServer) -> Row:
    count = sized(2_000, 10_000)

    def ours() -> float:
        with fresh_database(server, migrated=True) as url:
            return asyncio.run(_relay_rate(broker.url(), url, count))

    with rare_collections():  # as the command `holdfast relay` does
        rates = best_rates(
            {
                RAW: lambda: asyncio.run(_raw_rate(broker.url(), count)),
                OURS: ours,
            },
            rounds=sized(1, 3),
        )
    return Row(
        "relay a backlog to RabbitMQ, each message confirmed and marked",
        rate_ratios(rates, OURS),
        {name: round(rate) for name, rate in rates.items()},
        [Goal(RAW, 0.8)],
    )


async def _raw_rate(url: str, count: int) -> float:
    connection = await aio_pika.connect(url)
    async with connection, connection.channel(on_return_raises=True) as channel:
        await channel.declare_queue(QUEUE.name, durable=True, arguments=QUEUE.arguments)
        left, body = iter(range(count)), json.dumps(BODY).encode()

        async def publish() -> None:
            for number in left:
                # What a relay sends: a smaller message would be another one.
                message = aio_pika.Message(
                    body,
                    message_id=f"{number:032x}",
                    type=QUEUE.name,
                    headers={"aggregate_id": f"order-{number}"},
                    content_type=JSON,
                    delivery_mode=2,
                )
                await channel.default_exchange.publish(message, QUEUE.name, mandatory=True)

        begin = time.perf_counter()
        await asyncio.gather(*(publish() for _ in range(IN_FLIGHT)))
        rate = count / (time.perf_counter() - begin)
    await _purge(url)
    return rate


async def _relay_rate(url: str, database: str, count: int) -> float:
    async with Engine(database) as engine:
        publisher = RabbitPublisher(url, [QUEUE])
        relay = engine.relay(publisher)
        await relay.run(until_idle=True)  # opens all connections, as raw's is open
        connection = await asyncpg.connect(database)
        for start in range(0, count, 1000):
            async with connection.transaction():
                new = [(f"order-{start + n}", QUEUE.name, BODY) for n in range(1000)]
                await engine.outbox.add_many(connection, new)
        await connection.close()
        await publisher.open()
        begin = time.perf_counter()
        await relay.run(until_idle=True)
        seconds = time.perf_counter() - begin
        assert relay.published == count
        await _purge(url)
        return count / seconds


async def _purge(url: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        await (await channel.get_queue(QUEUE.name, ensure=False)).purge()


# -- the writer --------------------------------------------------------------------------------


def _adding(server: PostgresServer) -> Row:
    count = sized(200, 1_500)

    async def rates(database: str) -> dict[str, float]:
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(Engine(database))
            connection = await asyncpg.connect(database)
            stack.push_async_callback(connection.close)
            await connection.execute("CREATE TABLE orders (id int, body text)")

            async def insert(number: int) -> None:
                await connection.execute("INSERT INTO orders VALUES ($1, $2)", number, "x" * 200)

            async def insert_and_add(number: int) -> None:
                await insert(number)
                await engine.outbox.add(connection, f"order-{number}", QUEUE.name, BODY)

            async def rate(write: Callable[[int], Awaitable[None]]) -> float:
                begin = time.perf_counter()
                for number in range(count):
                    async with connection.transaction():
                        await write(number)
                return count / (time.perf_counter() - begin)

            best = {PLAIN: 0.0, OURS: 0.0}
            for _ in range(sized(1, 4)):
                for name, write in ((PLAIN, insert), (OURS, insert_and_add)):
                    best[name] = max(best[name], await rate(write))
            return best

    with fresh_database(server, migrated=True) as url:
        found = asyncio.run(rates(url))
    return Row(
        "commit a row together with a message",
        rate_ratios(found, OURS),
        {name: round(rate) for name, rate in found.items()},
        [Goal(PLAIN, round(1 / 1.3, 3))],
    )


# -- latency -----------------------------------------------------------------------------------


def _latency(broker: RabbitServer, server: PostgresServer) -> Row:
    with fresh_database(server, migrated=True) as url:
        found = asyncio.run(_delays(broker.url(), url, sized(30, 300)))
    counts = {
        "p50, ms": round(percentile(found, 0.5), 1),
        "p99, ms": round(percentile(found, 0.99), 1),
    }
    return Row("from commit to delivery, on an idle relay", counts=counts, at_most={"p99, ms": 50})


async def _delays(broker: str, database: str, samples: int) -> list[float]:
    """Return the milliseconds from the commit of each message to its arrival."""
    found: list[float] = []
    rng, arrived = random.Random(1), asyncio.Event()
    async with Engine(database) as engine, Engine(database) as writer:
        relay = engine.relay(RabbitPublisher(broker, [QUEUE]))
        relaying = asyncio.create_task(relay.run())
        connection = await aio_pika.connect(broker)
        async with connection, connection.channel() as channel:
            queue = await channel.declare_queue(QUEUE.name, durable=True, arguments=QUEUE.arguments)

            async def note(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                arrived.set()
                await message.ack()

            await queue.consume(note)
            own = await asyncpg.connect(database)
            for number in range(-5, samples):
                await asyncio.sleep(0.02 + 0.03 * rng.random())
                arrived.clear()
                async with own.transaction():
                    await writer.outbox.add(own, f"order-{number}", QUEUE.name, BODY)
                begin = time.perf_counter()
                async with asyncio.timeout(60):
                    await arrived.wait()
                if number >= 0:
                    found.append((time.perf_counter() - begin) * 1000)
            await own.close()
        relay.stop()
        await relaying
    return found
