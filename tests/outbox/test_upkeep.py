"""Beside publishing, a relay warns of a lag and deletes what is old."""

import asyncio

from tests.support.publishers import ScriptedPublisher
from tests.support.waiting import until

from holdfast.errors import HoldfastError
from holdfast.outbox import RelayOptions
from holdfast.outbox.model import Backlog
from holdfast.outbox.upkeep import Upkeep
from holdfast.testing import VirtualClock


class Outbox:
    """Answers with one backlog after the other."""

    def __init__(self, *lags):
        self.lags = list(lags)
        self.deleted = [500, 20, 0]
        self.ages = []

    async def backlog(self):
        lag = self.lags.pop(0) if self.lags else None
        if lag is None:
            raise HoldfastError("away")
        return Backlog(3, 0, lag)

    async def delete_published(self, max_age, *, limit):
        self.ages.append((max_age, limit))
        return self.deleted.pop(0)

    async def delete_handled(self, max_age, *, limit):
        self.ages.append((max_age, limit))
        return self.deleted.pop(0)


def test_a_message_that_waits_too_long_is_warned_of_once_in_a_while(caplog):
    clock = VirtualClock()
    upkeep = Upkeep(Outbox(59.0, 61.0, 66.0, 122.0, 1.0, 61.0), None, RelayOptions(), clock)

    async def scenario():
        warned = []
        for seconds in (0, 5, 5, 55, 5, 5):
            await clock.sleep_async(seconds)
            caplog.clear()
            await upkeep.warn_of_lag()
            warned.append("the outbox lags: 3 messages are pending" in caplog.text)
        assert warned == [False, True, False, True, False, True]

    clock.run(scenario())


def test_old_messages_and_requests_are_deleted_in_pages():
    outbox = Outbox()
    outbox.deleted = [500, 20, 0, 7, 0]
    upkeep = Upkeep(outbox, outbox, RelayOptions(), VirtualClock())
    assert asyncio.run(upkeep.tidy()) == 527
    assert outbox.ages == [(604800.0, 500)] * 3 + [(2592000.0, 500)] * 2


def test_a_store_that_does_not_answer_is_asked_again():
    clock = VirtualClock()
    outbox = Outbox(0.0)
    outbox.deleted = [0] * 10

    async def scenario():
        running = asyncio.create_task(
            Upkeep(outbox, None, RelayOptions(tidy_every=10.0), clock).run()
        )
        await clock.sleep_async(26.0)
        running.cancel()

    clock.run(scenario())
    assert len(outbox.ages) == 1  # the later rounds fail before they delete


def test_an_error_of_a_driver_does_not_end_the_upkeep(caplog):
    clock = VirtualClock()
    outbox = Outbox(61.0, 61.0)
    outbox.deleted = []  # it raises an IndexError

    async def scenario():
        running = asyncio.create_task(Upkeep(outbox, None, RelayOptions(), clock).run())
        await clock.sleep_async(61.0)
        assert not running.done()
        running.cancel()

    clock.run(scenario())
    assert "IndexError" in caplog.text
    assert outbox.lags == []


def test_a_running_relay_deletes_what_is_old(database):
    async def scenario():
        async with database.engine() as engine:
            await database.add(engine, "a", "b")
            options = RelayOptions(keep_published=0, poll_interval=0.05, tidy_every=0.05)
            relay = engine.relay(ScriptedPublisher(), options)
            running = asyncio.create_task(relay.run())
            await until(lambda: relay.published == 2)
            await until(lambda: _is_empty(engine))
            relay.stop()
            await running

    asyncio.run(scenario())


async def _is_empty(engine):
    return not (await engine.outbox.list()).messages
