"""Facts about the outbox: what is committed, claimed and marked, and in which order."""

import asyncio
from typing import Any, cast

from holdfast.ids import new_ids
from holdfast.jobs.model import Completed, Finished
from holdfast.jobs.store_port import Store
from holdfast.outbox.model import (
    MessageClaim,
    MessageReport,
    MessageStatus,
    NewMessage,
    RelayTick,
)
from holdfast.testing.conformance.world import World, fact, refusal

SECONDS = 30.0
"""How long claims last here."""
PENDING, PUBLISHED, FAILED = MessageStatus


def messages_of(store: Store) -> Any:
    """Return the part of `store` that keeps messages; every store has one."""
    return cast(Any, store).outbox


async def in_transaction(world: World, work: Any, *, commit: bool = True) -> Any:
    """Return what `work(connection)` returns, awaited in a transaction of the store's database."""
    (job_id,) = new_ids(1, world.now)
    claim = await world.start(job_id)
    transaction = world.store.transaction(claim.lease)
    try:
        answer = await work(await transaction.begin())
        if commit:
            await transaction.complete(Finished(claim.lease, Completed(None)), now=world.now)
    finally:
        await transaction.rollback()
    return answer


async def add(world: World, *aggregates: str, commit: bool = True, delay: float = 0.0) -> list[str]:
    """Add one message for each of `aggregates`, in one transaction, and return their ids."""
    found = new_ids(len(aggregates), world.now)
    new = [
        NewMessage(identifier, aggregate, "order.placed", f'{{"at": {place}}}', None, delay)
        for place, (identifier, aggregate) in enumerate(zip(found, aggregates, strict=True))
    ]

    async def work(connection: object) -> None:
        await messages_of(world.store).add_on(connection, new, now=world.now)

    await in_transaction(world, work, commit=commit)
    return found


async def tick(
    world: World, *reports: MessageReport, limit: int = 10, store: Store | None = None
) -> RelayTick:
    outbox = messages_of(store or world.store)
    answer: RelayTick = await outbox.tick(reports, limit, SECONDS, now=world.now)
    return answer


def report(claim: MessageClaim, status: MessageStatus = PUBLISHED, **fields: Any) -> MessageReport:
    return MessageReport(claim.id, claim.token, status, **fields)


def ids(answer: RelayTick) -> list[str]:
    return [claim.id for claim in answer.claims]


@fact
async def a_message_exists_once_its_transaction_has_committed(world: World) -> None:
    assert await tick(world) == RelayTick((), 0, None, (await tick(world)).mark)
    await add(world, "order-1", commit=False)
    assert ids(await tick(world)) == []
    (added,) = await add(world, "order-2")
    (claim,) = (await tick(world)).claims
    assert (claim.id, claim.aggregate_id, claim.message_type) == (added, "order-2", "order.placed")
    assert (claim.payload, claim.retry_count, claim.created_at) == ('{"at": 0}', 0, world.now)
    stored = await messages_of(world.store).get(added)
    assert (stored.status, stored.processed_at, stored.error_message) == (PENDING, None, None)


@fact
async def messages_are_claimed_in_the_order_in_which_they_were_added(world: World) -> None:
    first = await add(world, "b", "a", "c", "a")
    second = await add(world, "d", "b")
    assert ids(await tick(world, limit=4)) == first
    # The rest of b waits for the first one of b.
    assert ids(await tick(world)) == second[:1]


@fact
async def an_aggregate_is_in_the_hands_of_one_relay_at_a_time(world: World) -> None:
    one, two = await add(world, "a", "a")
    second = await world.open_second()
    (claim,) = (await tick(world, limit=1)).claims
    assert claim.id == one
    assert ids(await tick(world, store=second)) == []
    answer = await tick(world, report(claim), limit=0)
    assert (answer.claims, answer.refused) == ((), 0)
    assert ids(await tick(world, store=second)) == [two]


@fact
async def many_relays_claim_each_message_once(world: World) -> None:
    expected = [
        identifier
        for _ in range(4)
        for identifier in await add(world, *(f"order-{n % 7}" for n in range(15)))
    ]
    stores = [world.store, await world.open_second()]
    found: list[str] = []
    while len(found) < len(expected):
        answers = await asyncio.gather(
            *(tick(world, limit=5, store=stores[n % 2]) for n in range(6))
        )
        claims = [claim for answer in answers for claim in answer.claims]
        aggregates = [{claim.aggregate_id for claim in answer.claims} for answer in answers]
        assert sum(map(len, aggregates)) == len(set().union(*aggregates))
        found += [claim.id for claim in claims]
        await tick(world, *map(report, claims), limit=0)
    assert sorted(found) == sorted(expected)


@fact
async def a_published_message_is_marked_once(world: World) -> None:
    (added,) = await add(world, "a")
    (claim,) = (await tick(world)).claims
    world.pass_time(1.5)
    assert (await tick(world, report(claim))).refused == 0
    stored = await messages_of(world.store).get(added)
    assert (stored.status, stored.processed_at, stored.retry_count) == (PUBLISHED, world.now, 0)
    assert (await tick(world, report(claim))).refused == 1


@fact
async def an_expired_claim_is_taken_over_under_a_new_token(world: World) -> None:
    (added,) = await add(world, "a")
    (lost,) = (await tick(world)).claims
    answer = await tick(world)
    assert (answer.claims, answer.wake_in) == ((), SECONDS)
    world.pass_time(SECONDS)
    (claim,) = (await tick(world)).claims
    assert (claim.id, claim.token) == (added, lost.token + 1)
    assert (await tick(world, report(lost))).refused == 1
    assert (await messages_of(world.store).get(added)).status is PENDING
    assert (await tick(world, report(claim))).refused == 0


@fact
async def a_report_after_the_lease_counts_until_another_relay_has_claimed(world: World) -> None:
    (added,) = await add(world, "a")
    (claim,) = (await tick(world)).claims
    world.pass_time(SECONDS + 1)
    assert (await tick(world, report(claim), limit=0)).refused == 0
    assert (await messages_of(world.store).get(added)).status is PUBLISHED


@fact
async def a_retry_holds_back_its_own_aggregate_and_no_other(world: World) -> None:
    one, two, other = await add(world, "a", "a", "b")
    first, second, third = (await tick(world)).claims
    later = report(first, PENDING, error="unroutable", delay=5.0)
    answer = await tick(world, later, report(second, PENDING), report(third, PENDING))
    assert ids(answer) == [other]
    stored = await messages_of(world.store).get(one)
    assert (stored.status, stored.retry_count, stored.error_message) == (PENDING, 1, "unroutable")
    assert (await messages_of(world.store).get(two)).retry_count == 0
    assert (await tick(world)).wake_in == 5.0
    world.pass_time(5.0)
    assert ids(await tick(world)) == [one, two]


@fact
async def a_report_that_comes_again_counts_once(world: World) -> None:
    """The answer to the first one was lost, so its relay sends it again."""
    (message,) = await add(world, "a")
    (claim,) = (await tick(world)).claims
    refusal = report(claim, PENDING, error="no queue", delay=60.0)
    await tick(world, refusal)
    world.now += 30
    answer = await tick(world, refusal)
    assert (answer.refused, answer.wake_in) == (1, 30.0)
    assert (await messages_of(world.store).get(message)).retry_count == 1


@fact
async def a_failed_message_lets_the_next_ones_pass_and_can_be_requeued(world: World) -> None:
    one, two = await add(world, "a", "a")
    outbox = messages_of(world.store)
    first, second = (await tick(world)).claims
    failed = report(first, FAILED, error="odd \0 text")
    assert ids(await tick(world, failed, report(second, PENDING))) == [two]
    stored = await outbox.get(one)
    assert (stored.status, stored.retry_count) == (FAILED, 1)
    assert (stored.error_message, stored.processed_at) == ("odd \ufffd text", world.now)
    assert not await outbox.requeue(two)
    assert not await outbox.requeue("unknown")
    assert await outbox.requeue(one, now=world.now)
    stored = await outbox.get(one)
    assert (stored.status, stored.retry_count, stored.processed_at) == (PENDING, 0, None)
    world.pass_time(SECONDS)
    assert ids(await tick(world)) == [two, one]


@fact
async def only_a_failed_message_can_be_discarded(world: World) -> None:
    one, two = await add(world, "a", "b")
    outbox = messages_of(world.store)
    first, second = (await tick(world)).claims
    await tick(world, report(first, FAILED, error="unroutable"), report(second), limit=0)
    assert not await outbox.discard(two)
    assert await outbox.discard(one)
    assert not await outbox.discard(one)
    assert await outbox.get(one) is None


@fact
async def messages_are_listed_newest_first_in_pages(world: World) -> None:
    outbox = messages_of(world.store)
    added = []
    for number in range(5):
        added += await add(world, f"order-{number}")
        world.pass_time(0.01)
    first, second, *rest = (await tick(world)).claims
    failed = report(first, FAILED, error="unroutable")
    await tick(world, failed, report(second), *(report(one, PENDING) for one in rest), limit=0)

    async def pages(status: MessageStatus | None) -> list[list[str]]:
        page = await outbox.list(status, limit=2)
        found = [page]
        while page.next_cursor is not None:
            page = await outbox.list(status, cursor=page.next_cursor, limit=2)
            found.append(page)
        return [[message.id for message in page.messages] for page in found]

    newest = added[::-1]
    assert await pages(None) == [newest[:2], newest[2:4], newest[4:]]
    assert await pages(PENDING) == [newest[:2], newest[2:3]]
    assert await pages(PUBLISHED) == [[added[1]]]
    assert await pages(FAILED) == [[added[0]]]
    with refusal("an odd cursor"):
        await outbox.list(cursor="odd")


@fact
async def the_backlog_counts_what_waits_and_says_for_how_long(world: World) -> None:
    outbox = messages_of(world.store)
    empty = await outbox.backlog(now=world.now)
    assert (empty.pending, empty.failed, empty.lag) == (0, 0, 0.0)
    await add(world, "a", "b", "c")
    world.pass_time(10)
    await add(world, "d")
    first, second, third = (await tick(world, limit=3)).claims
    delayed = report(second, PENDING, error="unroutable", delay=60.0)
    await tick(world, report(first, FAILED, error="unroutable"), delayed, report(third), limit=0)
    world.pass_time(5)
    found = await outbox.backlog(now=world.now)
    assert (found.pending, found.failed, found.lag) == (2, 1, 15.0)


@fact
async def published_messages_are_deleted_when_they_are_old(world: World) -> None:
    outbox = messages_of(world.store)
    await add(world, "a", "b", "c", "d")
    *old, young, waiting = (await tick(world)).claims
    await tick(world, *map(report, old), report(waiting, PENDING), limit=0)
    world.pass_time(100)
    await tick(world, report(young), limit=0)
    assert await outbox.delete_published(100.0, limit=1, now=world.now) == 1
    assert await outbox.delete_published(100.0, now=world.now) == 1
    assert await outbox.delete_published(100.0, now=world.now) == 0
    assert {message.id for message in (await outbox.list()).messages} == {young.id, waiting.id}


@fact
async def a_delayed_message_waits_for_its_time_and_holds_back_no_other(world: World) -> None:
    outbox = messages_of(world.store)
    (later,) = await add(world, "a", delay=60.0)
    (now,) = await add(world, "a")
    stored = await outbox.get(later)
    assert (stored.status, stored.due_at) == (PENDING, world.now + 60.0)
    world.pass_time(10.0)
    backlog = await outbox.backlog(now=world.now)
    assert (backlog.pending, backlog.lag) == (1, 10.0)
    answer = await tick(world)
    assert ids(answer) == [now]
    answer = await tick(world, *map(report, answer.claims))
    assert (answer.claims, answer.wake_in) == ((), 50.0)
    world.pass_time(50.0)
    assert ids(await tick(world)) == [later]
    assert (await outbox.backlog(now=world.now)).lag == 0.0


@fact
async def a_message_keeps_its_headers(world: World) -> None:
    (identifier,) = new_ids(1, world.now)
    new = NewMessage(identifier, "a", "order.placed", "{}", '{"task": "grade"}')

    async def work(connection: object) -> None:
        await messages_of(world.store).add_on(connection, [new], now=world.now)

    await in_transaction(world, work)
    assert (await messages_of(world.store).get(identifier)).headers == '{"task": "grade"}'
    (claim,) = (await tick(world)).claims
    assert claim.headers == '{"task": "grade"}'


@fact
async def a_commit_wakes_a_waiting_relay(world: World) -> None:
    outbox = messages_of(world.store)
    mark = (await tick(world)).mark
    waiting = asyncio.create_task(outbox.wait_for_messages(mark, 60.0))
    await add(world, "a")
    assert await waiting
