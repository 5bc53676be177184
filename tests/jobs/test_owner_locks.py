"""Locks of owners in one process: in one order, for a bounded time, kept only while in use."""

import asyncio

import pytest
from tests.support.waiting import SOON

from holdfast.jobs.owner_locks import OwnerLocks
from holdfast.jobs.store_port import StoreBusy


def play(scenario, seconds=SOON):
    locks = OwnerLocks(seconds=seconds)

    async def main():
        async with asyncio.timeout(SOON):
            await scenario(locks)

    asyncio.run(main())
    assert not locks._locks, "a lock that no one uses is forgotten"


def test_blocks_of_one_owner_follow_each_other_in_the_order_of_their_calls():
    async def scenario(locks):
        seen = []

        async def block(number):
            async with locks.hold(["ann"]):
                seen.append(f"{number} begins")
                await asyncio.sleep(0)
                seen.append(f"{number} ends")

        await asyncio.gather(*(block(number) for number in range(3)))
        assert seen == [f"{n} {what}" for n in range(3) for what in ("begins", "ends")]

    play(scenario)


def test_another_owner_does_not_wait():
    async def scenario(locks):
        async with locks.hold(["ann"]), locks.hold(["bob"]):
            assert set(locks._locks) == {"ann", "bob"}

    play(scenario)


def test_several_owners_are_locked_in_one_order_so_that_no_calls_deadlock():
    async def scenario(locks):
        async def block(owners):
            async with locks.hold(owners):
                await asyncio.sleep(0)

        orders = [("ann", "bob", "cleo"), ("cleo", "bob", "ann"), ("bob", "ann")] * 5
        await asyncio.gather(*map(block, orders))

    play(scenario)


def test_a_block_that_fails_releases_its_owners():
    async def scenario(locks):
        with pytest.raises(KeyError):
            async with locks.hold(["ann", "bob"]):
                raise KeyError
        async with locks.hold(["ann", "bob"]):
            pass

    play(scenario)


def test_a_time_limit_of_the_block_itself_is_not_taken_for_the_wait():
    async def scenario(locks):
        with pytest.raises(TimeoutError):
            async with locks.hold(["ann"]):
                raise TimeoutError

    play(scenario)


def test_the_wait_ends_and_locks_nothing():
    async def scenario(locks):
        async with locks.hold(["bob"]):
            with pytest.raises(StoreBusy, match=r"'bob'.* 0\.02 s"):
                async with locks.hold(["ann", "bob"]):
                    raise AssertionError("bob was locked twice")
            async with locks.hold(["ann"]):
                pass
        async with locks.hold(["bob"]):
            pass

    play(scenario, seconds=0.02)


def test_a_cancelled_wait_locks_nothing():
    async def scenario(locks):
        async def wait():
            async with locks.hold(["ann", "bob"]):
                raise AssertionError("bob was locked twice")

        async with locks.hold(["bob"]):
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            assert "ann" in locks._locks
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with locks.hold(["ann"]):
                pass

    play(scenario)
