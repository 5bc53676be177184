"""A bell wakes whoever waits, on whatever loop."""

import asyncio
import threading

import pytest

from holdfast.store.sqlite.wake import Bell


@pytest.fixture
def bell():
    return Bell(lambda: None)


def test_a_ring_that_came_before_is_not_missed(bell):
    seen = bell.rings
    bell.ring()
    assert asyncio.run(bell.wait(seen, 60))


def test_a_ring_from_another_thread_wakes(bell):
    async def scenario():
        waiting = asyncio.create_task(bell.wait(bell.rings, 60))
        await asyncio.sleep(0)
        assert bell.has_waiters
        threading.Thread(target=bell.ring).start()
        return await waiting

    assert asyncio.run(scenario())
    assert not bell.has_waiters


def test_all_who_wait_are_woken(bell):
    async def scenario():
        waiting = [asyncio.create_task(bell.wait(bell.rings, 60)) for _ in range(5)]
        await asyncio.sleep(0)
        assert bell.ring() == 1
        return await asyncio.gather(*waiting)

    assert asyncio.run(scenario()) == [True] * 5


def test_without_a_ring_the_wait_ends_in_time(bell):
    assert not asyncio.run(bell.wait(bell.rings, 0.01))
    assert not bell.has_waiters


def test_a_loop_that_was_closed_while_waiting_does_no_harm(bell):
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(bell.wait(bell.rings, 60))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    bell.ring()
    assert not waiting.done()
    waiting.get_coro().close()
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]


def test_waiting_is_announced():
    announced = []
    bell = Bell(lambda: announced.append(True))
    asyncio.run(bell.wait(bell.rings, 0.01))
    assert announced == [True]
