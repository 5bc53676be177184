"""The relay: each committed message is published, in order, and marked after its confirm."""

import asyncio
import logging
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.support.publishers import ScriptedPublisher
from tests.support.waiting import until

from holdfast.jobs.store_port import StoreClosed, StoreUnavailable
from holdfast.outbox import (
    MessageRefused,
    MessageStatus,
    MessageUnconfirmed,
    PublisherMisconfigured,
    RelayOptions,
)
from holdfast.resilience.backoff import Exponential

SOON = Exponential(base=0.02, multiplier=1, cap=0.02, jitter=0)
QUICK = RelayOptions(poll_interval=0.2, backoff=SOON, max_attempts=3, batch_size=10)


@asynccontextmanager
async def relaying(engine, publisher, options=QUICK):
    """Run a relay while the block runs, then stop it."""
    relay = engine.relay(publisher, options)
    running = asyncio.create_task(relay.run())
    try:
        yield relay
        relay.stop()
        async with asyncio.timeout(30):
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def statuses(engine):
    return {message.status for message in (await engine.outbox.list(limit=1000)).messages}


def test_committed_messages_are_published_and_marked(database):
    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher()
            before = await database.add(engine, "a", "b", "a")
            async with relaying(engine, publisher) as relay:
                await until(lambda: len(publisher.taken) == 3)
                after = await database.add(engine, "c")
                await until(lambda: len(publisher.taken) == 4)
            assert sorted(publisher.ids) == sorted(before + after)
            assert await statuses(engine) == {MessageStatus.PUBLISHED}
            assert relay.published == 4
            assert publisher.closed == 1

    asyncio.run(scenario())


def test_a_commit_wakes_the_relay_long_before_it_polls(database):
    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher()
            async with relaying(engine, publisher, RelayOptions(poll_interval=3600)):
                await until(lambda: publisher.opened >= 3)
                for number in range(3):
                    publisher.arrived.clear()
                    await database.add(engine, f"order-{number}")
                    async with asyncio.timeout(30):
                        await publisher.arrived.wait()

    asyncio.run(scenario())


def test_several_relays_publish_each_message_once_and_in_order(database):
    async def scenario():
        async with database.engine() as one, database.engine() as two:
            publisher = ScriptedPublisher(lambda _: asyncio.sleep(0.001))
            async with relaying(one, publisher), relaying(two, publisher), relaying(one, publisher):
                added = defaultdict(list)
                for _ in range(10):
                    aggregates = [f"order-{number % 7}" for number in range(20)]
                    ids = await database.add(one, *aggregates)
                    for aggregate, identifier in zip(aggregates, ids, strict=True):
                        added[aggregate].append(identifier)
                await until(lambda: len(publisher.taken) >= 200)
            seen = defaultdict(list)
            for message in publisher.taken:
                seen[message.aggregate_id].append(message.id)
            assert seen == added

    asyncio.run(scenario())


def test_a_refused_message_fails_at_its_limit_and_holds_back_only_its_aggregate(database, caplog):
    def script(message):
        if message.aggregate_id == "poison" and '"at":0' in message.payload:
            raise MessageRefused("no queue is bound")

    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher(script)
            poison, behind, *others = await database.add(engine, "poison", "poison", "a", "b")
            async with relaying(engine, publisher):
                await until(lambda: len(publisher.taken) == 3)
            assert sorted(publisher.ids[:2]) == sorted(others)
            assert publisher.ids[2] == behind
            failed = await engine.outbox.get(poison)
            assert (failed.status, failed.retry_count) == (MessageStatus.FAILED, 3)
            assert failed.error_message == "no queue is bound"
            assert "failed after 3 attempts: no queue is bound" in caplog.text

    asyncio.run(scenario())


def test_a_message_without_an_answer_is_published_again_until_there_is_one(database):
    tries = []

    def script(message):
        tries.append(message.id)
        if len(tries) <= 5:
            raise MessageUnconfirmed("no confirm")

    async def scenario():
        async with database.engine() as engine:
            (added,) = await database.add(engine, "a")
            async with relaying(engine, ScriptedPublisher(script)) as relay:
                await until(lambda: relay.published == 1)
            assert tries == [added] * 6
            stored = await engine.outbox.get(added)
            assert (stored.status, stored.retry_count) == (MessageStatus.PUBLISHED, 5)
            assert stored.error_message is None

    asyncio.run(scenario())


def test_a_publisher_that_hangs_is_cut_off_within_the_lease(database):
    hangs = asyncio.Event()

    async def script(message):
        if not hangs.is_set():
            hangs.set()
            await asyncio.sleep(3600)

    async def scenario():
        async with database.engine() as engine:
            (added,) = await database.add(engine, "a")
            options = RelayOptions(lease_seconds=0.6, backoff=SOON, poll_interval=0.1)
            async with relaying(engine, ScriptedPublisher(script), options) as relay:
                await until(lambda: relay.published == 1)
            assert (await engine.outbox.get(added)).retry_count == 1

    asyncio.run(scenario())


def test_a_bug_of_the_publisher_stops_neither_the_relay_nor_other_messages(database, caplog):
    def script(message):
        if message.aggregate_id == "odd":
            raise ZeroDivisionError("oops")

    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher(script)
            odd, fine = await database.add(engine, "odd", "fine")
            async with relaying(engine, publisher):
                await until(lambda: _is_failed(engine, odd))
            assert publisher.ids == [fine]

    asyncio.run(scenario())


async def _is_failed(engine, message_id):
    return (await engine.outbox.get(message_id)).status is MessageStatus.FAILED


def test_an_outage_of_the_broker_counts_for_no_message_and_loses_none(database, caplog):
    caplog.set_level(logging.INFO)

    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher()
            publisher.available = False
            added = await database.add(engine, *(f"order-{n}" for n in range(20)))
            async with relaying(engine, publisher) as relay:
                await until(lambda: relay.waits_for)
                assert publisher.taken == []
                publisher.available = True
                await until(lambda: relay.published == 20)
                assert relay.waits_for is None
            assert sorted(publisher.ids) == sorted(added)
            stored = (await engine.outbox.list()).messages
            assert {message.retry_count for message in stored} == {0}
            assert caplog.text.count("the relay waits for the receiver of messages") == 1
            assert "answers again" in caplog.text

    asyncio.run(scenario())


def test_a_connection_lost_in_the_middle_of_a_batch_releases_the_rest(database):
    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher()

            def script(message):
                if len(publisher.taken) == 3 and not lost:
                    lost.append(message)
                    publisher.available = False
                    publisher._check()

            lost = []
            publisher.script = script
            added = await database.add(engine, *(f"order-{n}" for n in range(8)))
            async with relaying(engine, publisher) as relay:
                await until(lambda: relay.waits_for)

                async def the_rest_waits():
                    return (await engine.outbox.backlog()).pending == 5

                # Those that were taken are marked a moment after the connection is lost.
                await until(the_rest_waits)
                publisher.available = True
                await until(lambda: len(publisher.taken) == 8)
            assert sorted(publisher.ids) == sorted(added)

    asyncio.run(scenario())


def test_what_was_confirmed_is_marked_before_a_lost_connection_is_opened_again(database):
    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher()
            connecting = asyncio.Event()
            back = asyncio.Event()

            async def reopened():
                if publisher.taken:
                    connecting.set()
                    await back.wait()

            publisher.open = reopened
            await database.add(engine, "a")
            async with relaying(engine, publisher, replace(QUICK, batches=1)):
                await until(lambda: _is_marked(engine))
                await connecting.wait()
                back.set()

    asyncio.run(scenario())


async def _is_marked(engine):
    return await statuses(engine) == {MessageStatus.PUBLISHED}


def test_an_outage_of_the_store_is_waited_for(database, monkeypatch):
    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher()
            store, calls = engine.store.outbox, []
            tick = store.tick

            async def failing(*args, **kwargs):
                calls.append(args)
                if len(calls) <= 3:
                    raise StoreUnavailable("the database is away")
                return await tick(*args, **kwargs)

            monkeypatch.setattr(store, "tick", failing)
            await database.add(engine, "a")
            async with relaying(engine, publisher) as relay:
                await until(lambda: relay.published == 1)

    asyncio.run(scenario())


def test_a_store_that_is_closed_ends_the_relay(database, monkeypatch):
    async def scenario():
        async with database.engine() as engine:

            async def closed(*args, **kwargs):
                raise StoreClosed("closed")

            monkeypatch.setattr(engine.store.outbox, "tick", closed)
            with pytest.raises(StoreClosed):
                await engine.relay(ScriptedPublisher(), QUICK).run()

    asyncio.run(scenario())


def test_a_publisher_that_is_misconfigured_ends_the_relay_at_its_start(database):
    class Misconfigured(ScriptedPublisher):
        async def open(self):
            raise PublisherMisconfigured("the broker refuses the password")

    async def scenario():
        async with database.engine() as engine:
            publisher = Misconfigured()
            with pytest.raises(PublisherMisconfigured, match="refuses the password"):
                await engine.relay(publisher, QUICK).run()
            assert publisher.closed == 1

    asyncio.run(scenario())


def test_a_relay_that_dies_between_publish_and_mark_is_taken_over_with_the_same_id(database):
    async def scenario():
        async with database.engine() as engine:
            (added,) = await database.add(engine, "a")
            # The dead relay has claimed and published, and never reports.
            claimed = await engine.store.outbox.tick((), 10, 0.3)
            assert [claim.id for claim in claimed.claims] == [added]
            publisher = ScriptedPublisher()
            async with relaying(engine, publisher) as relay:
                await until(lambda: relay.published == 1)
            assert publisher.ids == [added]

    asyncio.run(scenario())


def test_a_cancelled_relay_marks_what_was_confirmed_and_releases_the_rest(database):
    async def scenario():
        async with database.engine() as engine:
            publisher = ScriptedPublisher()

            async def script(message):
                if message.aggregate_id != "first":
                    await asyncio.sleep(3600)

            publisher.script = script
            first, second = await database.add(engine, "first", "second")
            running = asyncio.create_task(engine.relay(publisher).run())
            await until(lambda: publisher.taken)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await engine.outbox.get(first)).status is MessageStatus.PUBLISHED
            answer = await engine.store.outbox.tick((), 10, 30.0)
            assert [claim.id for claim in answer.claims] == [second]

    asyncio.run(scenario())


def test_a_relay_that_stops_finishes_the_batch_that_is_on_its_way(database):
    async def scenario():
        async with database.engine() as engine:
            started, release = [], asyncio.Event()

            async def script(message):
                started.append(message)
                await release.wait()

            relay = engine.relay(ScriptedPublisher(script))
            await database.add(engine, "a", "b")
            running = asyncio.create_task(relay.run())
            await until(lambda: len(started) == 2)
            relay.stop()
            release.set()
            await running
            assert await statuses(engine) == {MessageStatus.PUBLISHED}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "wrong", [{"poll_interval": 0}, {"batch_size": 0}, {"max_attempts": 0.5}, {"stale_after": -1}]
)
def test_options_are_checked(wrong):
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        RelayOptions(**wrong)
