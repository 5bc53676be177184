"""Messages become jobs of the engine, each once."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from holdfast import OwnerLimits
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.messaging import JobPublisher
from holdfast.outbox import (
    MessageClaim,
    MessageRefused,
    MessageStatus,
    PublisherUnavailable,
    RelayOptions,
)


@dataclass
class Placed:
    at: int


app = App("orders")
seen: list[int] = []


@app.job()
async def confirm(ctx: JobContext, args: Placed) -> None:
    seen.append(args.at)


def claim(message_type="order.placed", payload='{"at": 1}'):
    return MessageClaim(1, 1, "0" * 32, "order-1", message_type, payload, 0, 0.0)


def test_a_message_is_run_as_a_job_once_though_it_comes_twice(database):
    async def scenario():
        seen.clear()
        async with database.engine([app]) as engine:
            await database.add(engine, "a", "b")
            publisher = JobPublisher(engine, {"order.placed": confirm})
            await engine.relay(publisher).run(until_idle=True)
            again = (await engine.outbox.list()).messages[0]
            await publisher.publish(
                MessageClaim(1, 9, again.id, "a", "order.placed", again.payload, 0, 0.0)
            )
            await engine.work(until_idle=True)
            assert sorted(seen) == [0, 1]
            assert (await engine.get(again.id)).status == "complete"

    asyncio.run(scenario())


def test_a_message_that_was_accepted_becomes_a_job_beyond_the_limits_of_its_owner(database):
    async def scenario():
        async with database.engine([app]) as engine:
            await engine.owners.set_limits("ann", OwnerLimits(waiting=1))
            await engine.enqueue(confirm, Placed(1), owner="ann")
            message = replace(claim(), headers='{"owner": "ann"}')
            await JobPublisher(engine, {"order.placed": confirm}).publish(message)
            assert (await engine.get(message.id)).owner == "ann"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "owner"),
    [('{"owner": "ann"}', "ann"), ('{"owner": null}', None), ('{"other": 1}', None), (None, None)],
)
def test_the_owner_in_the_headers_is_the_jobs(database, headers, owner):
    async def scenario():
        async with database.engine([app]) as engine:
            message = replace(claim(), headers=headers)
            await JobPublisher(engine, {"order.placed": confirm}).publish(message)
            assert (await engine.get(message.id)).owner == owner

    asyncio.run(scenario())


def test_a_message_that_no_job_takes_fails(database):
    async def scenario():
        async with database.engine([app]) as engine:
            (added,) = await database.add(engine, "a", message_type="order.unknown")
            publisher = JobPublisher(engine, {"order.placed": confirm})
            await engine.relay(publisher, RelayOptions(max_attempts=1)).run(until_idle=True)
            stored = await engine.outbox.get(added)
            assert stored.status is MessageStatus.FAILED
            assert stored.error_message == "no job takes messages of type 'order.unknown'"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ({"order.placed": "orders.confirm"}, claim(payload='{"at": "x"}')),
        ({"order.placed": "orders.missing"}, claim()),
    ],
)
def test_a_payload_or_a_kind_that_does_not_fit_is_refused(tmp_path, jobs, message):
    from holdfast.bootstrap import Engine

    async def scenario():
        async with Engine(f"sqlite:///{tmp_path}/work.db", [app]) as engine:
            with pytest.raises(MessageRefused):
                await JobPublisher(engine, jobs).publish(message)

    asyncio.run(scenario())


def test_a_store_that_does_not_answer_is_an_outage(tmp_path, monkeypatch):
    from holdfast.bootstrap import Engine

    async def scenario():
        async with Engine(f"sqlite:///{tmp_path}/work.db", [app]) as engine:

            async def away(*args, **kwargs):
                raise StoreUnavailable("away")

            monkeypatch.setattr(engine.store, "enqueue", away)
            with pytest.raises(PublisherUnavailable, match="away"):
                await JobPublisher(engine, {"order.placed": confirm}).publish(claim())

    asyncio.run(scenario())
