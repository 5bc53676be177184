"""Facts about rates that all processes share."""

import asyncio
from collections import Counter

from holdfast.jobs.store_port import Store
from holdfast.resilience.policy import RateLimit
from holdfast.testing.conformance.world import World, fact

THREE_A_MINUTE = RateLimit(per_minute=3)
FOR_EVER = 1e9


async def reserve(
    world: World,
    limit: RateLimit = THREE_A_MINUTE,
    longest: float = 0.0,
    *,
    name: str = "gemini",
    store: Store | None = None,
) -> float:
    wait = await (store or world.store).reserve_start(name, limit, longest, now=world.now)
    return round(wait, 3)


@fact
async def a_minute_holds_as_many_starts_as_its_rate_allows(world: World) -> None:
    second = await world.open_second()
    assert await reserve(world) == 0
    world.pass_time(10)
    assert [await reserve(world, store=second), await reserve(world)] == [0, 0]
    world.pass_time(49)
    assert [await reserve(world, store=second), await reserve(world)] == [1, 1]
    world.pass_time(1)
    assert [await reserve(world, store=second), await reserve(world)] == [0, 10]


@fact
async def a_wait_that_is_too_long_takes_no_place(world: World) -> None:
    for _ in range(3):
        await reserve(world)
    assert [await reserve(world, longest=59.0) for _ in range(5)] == [60] * 5
    assert await reserve(world, longest=60.0) == 60
    world.pass_time(60)
    assert [await reserve(world), await reserve(world), await reserve(world)] == [0, 0, 60]


@fact
async def callers_that_wait_for_a_place_get_one_each(world: World) -> None:
    second = await world.open_second()
    stores = [world.store, second] * 5
    waits = await asyncio.gather(
        *(reserve(world, longest=FOR_EVER, store=store) for store in stores)
    )
    assert sorted(waits) == [0, 0, 0, 60, 60, 60, 120, 120, 120, 180]


@fact
async def a_day_and_a_minute_are_limited_together(world: World) -> None:
    limit = RateLimit(per_minute=2, per_day=5)
    waits = [await reserve(world, limit, FOR_EVER) for _ in range(7)]
    assert waits == [0, 0, 60, 60, 120, 86_400, 86_400]
    world.pass_time(86_400 + 60)
    assert await reserve(world, limit) == 0


@fact
async def starts_that_are_spread_keep_their_distance(world: World) -> None:
    limit = RateLimit(per_minute=30, spread=True)
    assert [await reserve(world, limit, FOR_EVER) for _ in range(3)] == [0, 2, 4]
    world.pass_time(5)
    assert await reserve(world, limit, FOR_EVER) == 1


@fact
async def each_name_has_a_rate_of_its_own(world: World) -> None:
    for _ in range(3):
        await reserve(world)
    assert [await reserve(world), await reserve(world, name="Gemini")] == [60, 0]


@fact
async def a_new_limit_counts_the_starts_under_the_old_one(world: World) -> None:
    """Also where a process with a smaller limit has counted in between."""
    wide = RateLimit(per_day=6)
    for _ in range(4):
        await reserve(world, wide)
    await reserve(world, RateLimit(per_second=100))
    assert await reserve(world, RateLimit(per_minute=5)) == 60
    assert [await reserve(world, wide), await reserve(world, wide)] == [0, 86_400]


@fact
async def a_clock_that_is_set_back_lets_no_call_start_early(world: World) -> None:
    for _ in range(3):
        await reserve(world)
    world.pass_time(-30)
    assert await reserve(world) == 90
    assert await reserve(world, RateLimit(per_minute=100)) == 30


@fact
async def many_callers_never_start_more_than_the_limit(world: World) -> None:
    second = await world.open_second()
    limit = RateLimit(per_second=4, per_minute=20)
    starts: list[float] = []
    for _ in range(6):
        waits = await asyncio.gather(
            *(reserve(world, limit, 30.0, store=store) for store in [world.store, second] * 10)
        )
        starts += [world.now + wait for wait in waits if wait <= 30.0]
        world.pass_time(7.5)
    assert len(starts) > 20
    for period, most in limit.periods:
        within = Counter(
            {start: sum(start - period < other <= start for other in starts) for start in starts}
        )
        assert max(within.values()) == most
