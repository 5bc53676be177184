"""Waiting for work: for a hint, a known time or the next poll."""

import asyncio
from random import Random

import pytest
from tests.support.waiting import SOON, until

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.store_port import StoreUnavailable, TickResult
from holdfast.jobs.worker.wakeups import Wakeups


def with_wake(at):
    return TickResult(
        claims=(), refused=(), overruled=(), moved=(), timed_out=(), wake_at=at, mark=3, now=10.0
    )  # fmt: skip


NOTHING = with_wake(None)


class Hints:
    """A store that records the marks and timeouts with which it is asked for hints."""

    def __init__(self, *answers):
        self.asked = []
        self._answers = list(answers)

    async def wait_for_work(self, mark, timeout):
        self.asked.append((mark, timeout))
        answer = self._answers.pop(0) if self._answers else None
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return True


def waiter(store, woken):
    return Wakeups(store, 60.0, clock=SYSTEM_CLOCK, rng=Random(1), on_work=woken.set)


def test_a_hint_is_passed_on_and_the_next_wait_uses_the_mark_of_the_tick():
    async def go():
        woken, store = asyncio.Event(), Hints(True)
        one = waiter(store, woken)
        one.wait(NOTHING)
        async with asyncio.timeout(SOON):
            await woken.wait()
        one.wait(NOTHING)
        await asyncio.sleep(0)
        assert [mark for mark, _ in store.asked] == [3, 3]
        assert all(54 <= seconds <= 66 for _, seconds in store.asked)
        await one.close()

    asyncio.run(go())


def test_only_a_sooner_moment_takes_the_place_of_the_one_that_is_waited_for():
    async def go():
        woken, store = asyncio.Event(), Hints()
        one = waiter(store, woken)
        for wake_at in (None, 15.0, 40.0):
            one.wait(with_wake(wake_at))
            await asyncio.sleep(0)
        assert [round(seconds) for _, seconds in store.asked[1:]] == [5]
        await one.close()

    asyncio.run(go())


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), ValueError("broken")])
def test_a_new_wait_begins_after_every_kind_of_end(failure):
    async def go():
        woken, store = asyncio.Event(), Hints(failure)
        one = waiter(store, woken)
        one.wait(with_wake(10.001))
        await until(lambda: one.wait(NOTHING) or len(store.asked) == 2)
        await one.close()

    asyncio.run(go())


def test_one_that_was_closed_can_be_used_again():
    async def go():
        store = Hints()
        one = waiter(store, asyncio.Event())
        one.wait(NOTHING)
        await asyncio.sleep(0)
        await one.close()
        one.wait(NOTHING)
        await asyncio.sleep(0)
        assert len(store.asked) == 2
        await one.close()

    asyncio.run(go())
