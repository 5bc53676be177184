"""Facts about the inbox: a request is handled once, with its effect or not at all."""

from holdfast.testing.conformance.outbox_facts import in_transaction, messages_of
from holdfast.testing.conformance.world import World, fact


async def first(
    world: World, request_id: str, consumer: str = "grading", *, commit: bool = True
) -> bool:
    async def work(connection: object) -> bool:
        inbox = messages_of(world.store)
        return bool(await inbox.first_on(connection, consumer, request_id, now=world.now))

    return bool(await in_transaction(world, work, commit=commit))


@fact
async def a_request_is_handled_once_by_each_consumer(world: World) -> None:
    inbox = messages_of(world.store)
    assert not await inbox.handled("grading", "r1")
    assert await first(world, "r1")
    assert not await first(world, "r1")
    assert await first(world, "r1", "callbacks")
    assert await inbox.handled("grading", "r1")
    assert not await inbox.handled("grading", "r2")


@fact
async def a_request_whose_transaction_is_rolled_back_was_not_handled(world: World) -> None:
    assert await first(world, "r1", commit=False)
    assert not await messages_of(world.store).handled("grading", "r1")
    assert await first(world, "r1")


@fact
async def old_requests_are_forgotten(world: World) -> None:
    inbox = messages_of(world.store)
    await first(world, "r1")
    await first(world, "r2")
    world.pass_time(50)
    await first(world, "r3")
    world.pass_time(50)
    assert await inbox.delete_handled(100.0, limit=1, now=world.now) == 1
    assert await inbox.delete_handled(100.0, now=world.now) == 1
    assert await inbox.delete_handled(100.0, now=world.now) == 0
    assert await first(world, "r1")
    assert not await first(world, "r3")
