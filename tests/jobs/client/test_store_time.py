"""The store's time, read once a minute."""

import asyncio

from holdfast.jobs.client.store_time import StoreTime
from holdfast.testing import VirtualClock


class Store:
    """A store whose clock runs an hour ahead of ours."""

    def __init__(self, clock):
        self.clock = clock
        self.pings = 0

    async def ping(self):
        self.pings += 1
        return self.clock.wall() + 3600


def test_it_is_the_stores_clock_and_not_ours():
    clock = VirtualClock()
    assert asyncio.run(StoreTime(Store(clock), clock).now()) == clock.wall() + 3600


def test_it_follows_the_monotonic_clock_and_is_read_again_after_a_minute():
    clock = VirtualClock()
    store = Store(clock)

    async def scenario():
        time = StoreTime(store, clock)
        await time.now()
        clock.advance(59)
        assert await time.now() == clock.wall() + 3600
        assert store.pings == 1
        clock.advance(2)
        assert await time.now() == clock.wall() + 3600
        assert store.pings == 2

    asyncio.run(scenario())


def test_a_step_of_the_local_time_of_day_changes_nothing():
    clock = VirtualClock()
    store = Store(clock)

    async def scenario():
        time = StoreTime(store, clock)
        first = await time.now()
        clock.step_wall(-7200)
        clock.advance(10)
        assert await time.now() == first + 10

    asyncio.run(scenario())
