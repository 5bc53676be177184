"""Facts about owners: one owner's flood does not keep the jobs of others waiting."""

from collections import Counter
from typing import Any

from holdfast.jobs.claim_sharing import TURN
from holdfast.jobs.model import Claim, Completed, Finished, NewJob
from holdfast.testing.conformance.world import World, fact, ids


async def _add(world: World, number: int, owner: str | None, **fields: Any) -> None:
    kind = fields.pop("kind", "work")
    name = owner or "nobody"
    jobs = [NewJob(f"{name}-{n:03d}", kind, owner=owner, **fields) for n in range(number)]
    await world.store.enqueue(jobs, now=world.now)
    world.pass_time(1)


async def _replace_one_by_one(world: World, running: list[Claim], number: int) -> list[str]:
    """Finish `number` attempts one by one; return the jobs that took their slots."""
    started: list[str] = []
    for _ in range(number):
        result = await world.tick([Finished(running.pop(0).lease, Completed())], 1)
        started += ids(result.claims)
        running += result.claims
    return started


def _owners(started: list[str]) -> list[str]:
    return [name.split("-")[0] for name in started]


@fact
async def an_owner_who_arrives_behind_a_flood_is_next(world: World) -> None:
    """With a whole turn in a row; then the flood goes on where it was."""
    await _add(world, 60, "ann")
    running = list(await world.claim(TURN))
    await _add(world, TURN, "bob")
    assert await _replace_one_by_one(world, running, TURN) == [f"bob-{n:03d}" for n in range(TURN)]
    assert await _replace_one_by_one(world, running, 2) == ["ann-010", "ann-011"]


@fact
async def owners_take_turns_while_several_wait(world: World) -> None:
    """Jobs without an owner count as one owner."""
    for owner in ("ann", "bob", None):
        await _add(world, 40, owner)
    running = list(await world.claim(TURN))
    started = _owners(ids(running)) + _owners(await _replace_one_by_one(world, running, 5 * TURN))
    turns = [set(started[begin : begin + TURN]) for begin in range(0, 6 * TURN, TURN)]
    assert all(len(turn) == 1 for turn in turns), turns
    assert turns[0] | turns[1] | turns[2] == {"ann", "bob", "nobody"}
    assert turns[3:] == turns[:3]


@fact
async def owners_share_a_large_claim(world: World) -> None:
    """Equally; what one of them leaves over goes to the others."""
    for owner, number in (("ann", 90), ("bob", 90), ("cid", 4)):
        await _add(world, number, owner)
    taken = Counter(_owners(ids(await world.claim(60))))
    assert taken["cid"] == 4
    assert abs(taken["ann"] - taken["bob"]) <= 60 % 3 + TURN
    assert taken.total() == 60


@fact
async def within_an_owner_priority_and_time_decide(world: World) -> None:
    """And a higher priority comes first for every owner."""
    await _add(world, 30, "ann", priority=1)
    await _add(world, 3, "bob")
    assert _owners(ids(await world.claim(30))) == ["ann"] * 30
    await _add(world, 2, "cid", priority=5)
    assert ids(await world.claim(3)) == ["cid-000", "cid-001", "bob-000"]


@fact
async def owners_take_turns_across_the_kinds_of_a_lane(world: World) -> None:
    """A flood of one kind does not keep another kind's owner waiting either."""
    await _add(world, 60, "ann")
    running = list(await world.claim(TURN))
    await _add(world, 5, "bob", kind="other")
    started = await _replace_one_by_one(world, running, 7)
    assert _owners(started) == ["bob"] * 5 + ["ann"] * 2


@fact
async def owners_with_one_job_each_fill_what_another_lane_leaves(world: World) -> None:
    """The lane is asked a second time, and goes on after the owners that it has served."""
    await _add(world, 1, "zoe", downstream="gateway")
    for number in range(12):
        await world.add(f"job-{number:02}", owner=f"owner-{number:02}", downstream="host")
    started = ids(await world.claim(8))
    assert sorted(started) == [*(f"job-{number:02}" for number in range(7)), "zoe-000"]


@fact
async def owners_take_turns_within_the_limit_of_a_downstream(world: World) -> None:
    """The limit says how many jobs start, the turn whose they are."""
    await world.declare(concurrency=TURN)
    await _add(world, 60, "ann", downstream="gateway")
    running = list(await world.claim(2 * TURN))
    assert len(running) == TURN
    await _add(world, 5, "bob", downstream="gateway")
    assert _owners(await _replace_one_by_one(world, running, 6)) == ["bob"] * 5 + ["ann"]


@fact
async def an_owner_leaves_spare_places_to_others(world: World) -> None:
    """Also while no other waits; who arrives then starts at once."""
    await world.declare(concurrency=4, spare=1)
    await _add(world, 20, "ann", downstream="gateway")
    running = list(await world.claim(10))
    assert _owners(ids(running)) == ["ann"] * 3
    assert await world.claim(10) == ()
    await _add(world, 20, "bob", downstream="gateway")
    running += await world.claim(10)
    assert _owners(ids(running)) == ["ann"] * 3 + ["bob"]
    started = await _replace_one_by_one(world, running, 8)
    assert set(_owners(started)) == {"ann", "bob"}
    assert max(Counter(claim.owner for claim in running).values()) <= 3


@fact
async def each_level_of_an_owners_name_leaves_spare_places(world: World) -> None:
    """All owners of one office leave a place to others, and each of them one more."""
    await world.declare(concurrency=4, spare=1)
    await _add(world, 9, "office/ann", downstream="gateway")
    assert len(await world.claim(9)) == 2
    await _add(world, 9, "office/bob", downstream="gateway")
    assert _owners(ids(await world.claim(9))) == ["office/bob"]
    await _add(world, 9, "office-2", downstream="gateway")
    await _add(world, 9, "zoe", downstream="gateway")
    assert len(await world.claim(9)) == 1
    assert await world.claim(9) == ()


@fact
async def owners_at_their_limit_let_lower_priorities_and_other_kinds_start(world: World) -> None:
    """And jobs without an owner are not limited."""
    await world.declare(concurrency=4, spare=2)
    await _add(world, 9, "ann", downstream="gateway", priority=5)
    await _add(world, 1, "bob", downstream="gateway", kind="other")
    await _add(world, 9, None, downstream="gateway", priority=-1)
    assert Counter(_owners(ids(await world.claim(9)))) == {"ann": 2, "bob": 1, "nobody": 1}
