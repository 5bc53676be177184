"""A pool of children: kept ready, reused, replaced and awaited."""

import asyncio
import contextlib
import os
import signal
from dataclasses import replace

import pytest

from holdfast.children import (
    BrokenFrame,
    ChildDied,
    ChildFailed,
    ChildLimits,
    ChildPool,
    ChildSpec,
    Death,
    NoChildFree,
)
from holdfast.clock import SYSTEM_CLOCK

SOON = 30.0
SPEC = ChildSpec("tests.support.child_handlers:load", "plain")


def text(child, kind, body):
    return body


@contextlib.asynccontextmanager
async def opened(spec=SPEC, **options):
    pool = ChildPool(spec, SYSTEM_CLOCK, **options)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


async def until(condition):
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.01)


def test_children_are_kept_ready_and_used_again():
    async def go():
        async with opened(size=2) as pool:
            ready = pool.pids()
            assert (len(ready), pool.idle) == (2, 2)
            asked = [pool.call({"pid": 1}, text) for _ in range(6)]
            assert {int(pid) for pid in await asyncio.gather(*asked)} <= set(ready)
            assert pool.pids() == ready

    asyncio.run(go())


def test_a_dead_child_is_replaced_before_the_next_request():
    async def go():
        async with opened(size=1) as pool:
            (first,) = pool.pids()
            os.kill(first, signal.SIGKILL)
            assert await pool.call({"echo": "x"}, text) == "plain x"
            assert first not in pool.pids()

    asyncio.run(go())


def test_a_child_that_is_worn_or_retired_is_replaced():
    async def go():
        spec = replace(SPEC, limits=ChildLimits(requests=2))
        async with opened(spec, size=1) as pool:
            worn = [await pool.call({"pid": 1}, text) for _ in range(3)]
            assert (worn[0] == worn[1], worn[1] == worn[2]) == (True, False)

            def retiring(child, kind, body):
                child.retire()
                return body

            last = await pool.call({"pid": 1}, retiring)
            assert await pool.call({"pid": 1}, text) != last
            await until(lambda: pool.idle == 1)

    asyncio.run(go())


def test_a_request_waits_for_a_child_and_not_for_ever():
    async def go():
        async with opened(size=1, wait_seconds=0.2) as pool:
            busy = asyncio.create_task(pool.call({"sleep": 600}, text))
            await until(lambda: pool.idle == 0)
            with pytest.raises(NoChildFree):
                await pool.call({"echo": "x"}, text)
            busy.cancel()
            await asyncio.gather(busy, return_exceptions=True)
        async with opened(size=1, wait_seconds=SOON) as pool:
            busy = asyncio.create_task(pool.call({"sleep": 0.2}, text))
            await until(lambda: pool.idle == 0)
            assert await pool.call({"echo": "x"}, text) == "plain x"
            assert await busy == "lives"

    asyncio.run(go())


def test_children_beyond_those_kept_ready_are_started_when_needed():
    async def go():
        async with opened(size=2, ready=1) as pool:
            assert len(pool.pids()) == 1
            asked = [pool.call({"sleep": 0.2}, text) for _ in range(3)]
            assert await asyncio.gather(*asked) == ["lives"] * 3
            assert len(pool.pids()) == 2
            for child in pool.pids():
                os.kill(child, signal.SIGKILL)
            assert await pool.call({"echo": "x"}, text) == "plain x"

    asyncio.run(go())


def test_a_start_that_fails_lets_the_next_request_try():
    async def go():
        pool = ChildPool(replace(SPEC, options="fail"), SYSTEM_CLOCK, size=1, ready=0)
        async with asyncio.timeout(SOON):
            asked = [pool.call({"echo": "x"}, text) for _ in range(3)]
            found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [ChildFailed] * 3
        await pool.close()

    asyncio.run(go())


def test_without_a_bound_each_request_has_a_child_and_idle_ones_are_ended():
    async def go():
        async with opened(idle_seconds=0.1) as pool:
            asked = [pool.call({"pid": 1}, text) for _ in range(3)]
            assert len(set(await asyncio.gather(*asked))) == 3
            await until(lambda: pool.pids() == [])

    asyncio.run(go())


def test_an_answer_that_makes_no_sense_kills_the_child():
    def strict(child, kind, body):
        raise BrokenFrame("not what was asked for")

    async def go():
        async with opened(size=1) as pool:
            (first,) = pool.pids()
            with pytest.raises(ChildDied) as died:
                await pool.call({"echo": "x"}, strict)
            assert died.value.death is Death.BROKEN_FRAME
            assert await pool.call({"echo": "x"}, text) == "plain x"
            assert first not in pool.pids()

    asyncio.run(go())


def test_a_pool_that_cannot_start_its_children_has_a_reason_and_leaves_none():
    async def go():
        pool = ChildPool(replace(SPEC, options="fail"), SYSTEM_CLOCK, size=2)
        with pytest.raises(ChildFailed, match="as asked"):
            await pool.open()
        assert pool.pids() == []

    asyncio.run(go())


def test_whether_all_children_are_confined_is_known():
    async def go():
        async with opened(replace(SPEC, confine=True), size=2) as pool:
            assert pool.confined
        async with opened(size=1) as pool:
            assert not pool.confined

    asyncio.run(go())
