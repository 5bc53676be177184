"""A counter wakes all waiting tasks, on any event loop."""

import asyncio
import threading

import pytest

from holdfast.store.sqlite.change_counter import ChangeCounter


@pytest.fixture
def counter():
    return ChangeCounter(lambda: None)


def test_an_increment_before_the_wait_is_not_missed(counter):
    seen = counter.count
    counter.increment()
    assert asyncio.run(counter.wait(seen, 60))


def test_an_increment_in_another_thread_wakes(counter):
    async def scenario():
        waiting = asyncio.create_task(counter.wait(counter.count, 60))
        await asyncio.sleep(0)
        assert counter.has_waiters
        threading.Thread(target=counter.increment).start()
        return await waiting

    assert asyncio.run(scenario())
    assert not counter.has_waiters


def test_all_waiting_tasks_are_woken(counter):
    async def scenario():
        waiting = [asyncio.create_task(counter.wait(counter.count, 60)) for _ in range(5)]
        await asyncio.sleep(0)
        assert counter.increment() == 1
        return await asyncio.gather(*waiting)

    assert asyncio.run(scenario()) == [True] * 5


def test_without_an_increment_the_wait_times_out(counter):
    assert not asyncio.run(counter.wait(counter.count, 0.01))
    assert not counter.has_waiters


def test_a_loop_closed_during_a_wait_does_not_stop_the_counter(counter):
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(counter.wait(counter.count, 60))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    counter.increment()
    assert not waiting.done()
    waiting.get_coro().close()
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]


def test_the_start_of_a_wait_is_announced():
    announced = []
    counter = ChangeCounter(lambda: announced.append(True))
    asyncio.run(counter.wait(counter.count, 0.01))
    assert announced == [True]
