"""Facts about the handling of requests: one delivery at a time, and none that is lost."""

from typing import Any

from holdfast.ids import new_ids
from holdfast.outbox.handling import Release, RequestClaim, RequestStart, StartState
from holdfast.outbox.model import NewMessage
from holdfast.testing.conformance.inbox_facts import first
from holdfast.testing.conformance.outbox_facts import messages_of, tick
from holdfast.testing.conformance.world import World, fact

SECONDS = 30.0
"""How long leases last here."""


async def begin(world: World, request_id: str = "r1", round_: int = 0) -> RequestStart:
    handling = messages_of(world.store)
    answer: RequestStart = await handling.begin(
        "grading", request_id, round_, SECONDS, now=world.now
    )
    return answer


async def claimed(world: World, request_id: str = "r1", round_: int = 0) -> RequestClaim:
    claim = (await begin(world, request_id, round_)).claim
    assert claim is not None
    return claim


async def release(world: World, claim: RequestClaim, why: Release, **fields: Any) -> bool:
    (identifier,) = new_ids(1, world.now)
    message = NewMessage(identifier, "a", "grading.request", "{}", **fields)
    return bool(await messages_of(world.store).release(claim, why, [message], now=world.now))


@fact
async def a_request_is_begun_by_one_delivery_at_a_time(world: World) -> None:
    claim = await claimed(world)
    assert (claim.attempt, claim.token, claim.round) == (1, 1, 0)
    world.pass_time(10.0)
    assert await begin(world) == RequestStart(StartState.RUNNING, wait=20.0)
    assert (await begin(world, "r2")).state is StartState.CLAIMED


@fact
async def a_finished_request_is_not_begun_again(world: World) -> None:
    claim = await claimed(world)
    handling = messages_of(world.store)
    assert await handling.finish(claim, now=world.now)
    assert not await handling.finish(claim, now=world.now)
    assert await begin(world) == RequestStart(StartState.HANDLED)
    assert await handling.handled("grading", "r1")


@fact
async def a_request_that_was_handled_in_a_callers_transaction_is_not_begun_again(
    world: World,
) -> None:
    claim = await claimed(world)
    assert await first(world, "r1")
    assert await begin(world) == RequestStart(StartState.HANDLED)
    assert not await messages_of(world.store).finish(claim, now=world.now)


@fact
async def a_lost_delivery_counts_as_an_attempt(world: World) -> None:
    lost = await claimed(world)
    world.pass_time(SECONDS)
    claim = await claimed(world)
    assert (claim.attempt, claim.token) == (2, lost.token + 1)
    assert not await release(world, lost, Release.RETRY)
    assert (await tick(world)).claims == ()


@fact
async def a_lease_that_is_extended_lasts(world: World) -> None:
    claim = await claimed(world)
    world.pass_time(20.0)
    await messages_of(world.store).extend([claim], SECONDS, now=world.now)
    world.pass_time(20.0)
    assert await begin(world) == RequestStart(StartState.RUNNING, wait=10.0)


@fact
async def a_retry_replaces_the_message_and_counts_the_attempt(world: World) -> None:
    assert await release(world, await claimed(world), Release.RETRY, delay=60.0)
    assert (await tick(world)).wake_in == 60.0
    assert await begin(world) == RequestStart(StartState.STALE)
    claim = await claimed(world, round_=1)
    assert claim.attempt == 2


@fact
async def a_hold_replaces_the_message_and_counts_no_attempt(world: World) -> None:
    assert await release(world, await claimed(world), Release.HOLD)
    assert await begin(world) == RequestStart(StartState.STALE)
    assert (await claimed(world, round_=1)).attempt == 1


@fact
async def a_dead_request_is_begun_again_only_when_it_is_requeued(world: World) -> None:
    assert await release(world, await claimed(world), Release.RETRY)
    claim = await claimed(world, round_=1)
    assert await release(world, claim, Release.DEAD)
    assert not await release(world, claim, Release.DEAD)
    assert await begin(world) == RequestStart(StartState.STALE)
    assert await begin(world, round_=1) == RequestStart(StartState.STALE)
    assert (await claimed(world, round_=2)).attempt == 1


@fact
async def messages_can_be_added_without_a_request(world: World) -> None:
    (identifier,) = new_ids(1, world.now)
    message = NewMessage(identifier, "a", "grading.request", "{}", delay=5.0)
    await messages_of(world.store).add([message], now=world.now)
    assert (await messages_of(world.store).get(identifier)).due_at == world.now + 5.0


@fact
async def requests_that_were_given_up_are_forgotten(world: World) -> None:
    await claimed(world)
    world.pass_time(100.0)
    assert await messages_of(world.store).delete_handled(100.0, now=world.now) == 1
    assert (await claimed(world)).attempt == 1
