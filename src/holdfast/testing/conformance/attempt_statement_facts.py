"""Facts about the statements of a handler's transaction that gives it no connection."""

import asyncio
from typing import cast

from holdfast.jobs.database_port import DatabaseTransaction
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import Claim, Completed, Finished, JobStatus
from holdfast.jobs.transaction_port import AttemptTransaction
from holdfast.testing.conformance.notes_table import (
    ADD_NOTE,
    ALL_NOTES,
    LONG_QUERY,
    create_notes,
    note,
    notes,
)
from holdfast.testing.conformance.world import World, fact, refusal

_CONTROL = (
    "COMMIT", "end", "ROLLBACK", "BEGIN", "ROLLBACK; BEGIN", "-- ends it\n/* now */ ;\nCOMMIT",
    "ROLLBACK -- to its beginning\n; BEGIN",
)  # fmt: skip


async def _statements(world: World, claim: Claim) -> tuple[AttemptTransaction, DatabaseTransaction]:
    """Begin the transaction of an attempt, as a handler that gets no connection."""
    transaction = world.store.transaction(claim.lease, world.store.database)
    return transaction, cast(DatabaseTransaction, await transaction.begin())


async def _complete(world: World, claim: Claim, transaction: AttemptTransaction) -> None:
    await transaction.complete(Finished(claim.lease, Completed("1")), now=world.now)
    await transaction.rollback()


@fact
async def statements_of_handlers_are_committed_with_their_completions(world: World) -> None:
    await create_notes(world)
    for number, name in enumerate("abc"):
        claim = await world.start(name)
        transaction, tx = await _statements(world, claim)
        await tx.execute_many(ADD_NOTE, [note(number)])
        assert (number, f"note {number}") in await tx.fetch(ALL_NOTES)
        assert len(await notes(world)) == number
        await _complete(world, claim, transaction)
        assert len(await notes(world)) == number + 1
        assert (await world.job(name)).status is JobStatus.COMPLETE


@fact
async def statements_of_a_handler_are_rolled_back_with_its_transaction(world: World) -> None:
    await create_notes(world)
    claim = await world.start("a")
    transaction, tx = await _statements(world, claim)
    await tx.fetch(ADD_NOTE, note(1))
    await transaction.rollback()
    assert await notes(world) == []
    assert (await world.job("a")).status is JobStatus.PROCESSING


@fact
async def a_late_statement_of_a_handler_does_not_reach_the_next_ones_transaction(
    world: World,
) -> None:
    await create_notes(world)
    first, second = await world.start("a"), await world.start("b")
    ended, late = await _statements(world, first)
    await late.fetch(ADD_NOTE, note(1))
    await _complete(world, first, ended)
    transaction, tx = await _statements(world, second)
    await tx.fetch(ADD_NOTE, note(2))
    with refusal("a late statement", kind=ContextError):
        await late.fetch(ADD_NOTE, note(3))
    await _complete(world, second, transaction)
    assert await notes(world) == [(1, "note 1"), (2, "note 2")]


@fact
async def a_statement_after_a_handlers_rollback_is_refused(world: World) -> None:
    await create_notes(world)
    transaction, late = await _statements(world, await world.start("a"))
    await transaction.rollback()
    with refusal("a late statement", kind=ContextError):
        await late.fetch(ADD_NOTE, note(1))
    assert await notes(world) == []


@fact
async def a_statement_that_still_runs_at_a_handlers_end_rolls_all_back(world: World) -> None:
    await create_notes(world)
    claim = await world.start("a")
    transaction, tx = await _statements(world, claim)
    await tx.fetch(ADD_NOTE, note(1))
    running = asyncio.create_task(tx.fetch(LONG_QUERY))
    await asyncio.sleep(0)  # it has begun
    with refusal("a completion", "still ran", kind=ContextError):
        await transaction.complete(Finished(claim.lease, Completed("1")), now=world.now)
    await transaction.rollback()
    await asyncio.gather(running, return_exceptions=True)
    assert await notes(world) == []


@fact
async def a_statement_that_would_end_the_transaction_is_refused_before_it_runs(
    world: World,
) -> None:
    """A handler's, one of a block of its own, and one that was joined: all are still open after."""
    await create_notes(world)
    claim, other = await world.start("a"), await world.start("b")
    transaction, tx = await _statements(world, claim)
    await _is_protected(tx, 1)
    await _complete(world, claim, transaction)
    async with world.store.database.transaction() as tx:
        await _is_protected(tx, 2)
    transaction = world.store.transaction(other.lease)
    await _is_protected(world.store.database.joined(await transaction.begin()), 3)
    await _complete(world, other, transaction)
    assert len(await notes(world)) == 3


async def _is_protected(tx: DatabaseTransaction, number: int) -> None:
    await tx.fetch(ADD_NOTE, note(number))
    for sql in _CONTROL:
        with refusal(sql, "SAVEPOINT", kind=ContextError):
            await tx.fetch(sql)
        with refusal(sql, "SAVEPOINT", kind=ContextError):
            await tx.execute_many(sql, [{}])


@fact
async def a_handler_may_use_savepoints(world: World) -> None:
    await create_notes(world)
    claim = await world.start("a")
    transaction, tx = await _statements(world, claim)
    await tx.fetch(ADD_NOTE, note(1))
    for end in ("ROLLBACK TO", "rollback transaction to savepoint", "RELEASE"):
        await tx.fetch("SAVEPOINT careful")
        await tx.fetch(ADD_NOTE, note(2))
        await tx.fetch(f"{end} careful")
    await _complete(world, claim, transaction)
    assert len(await notes(world)) == 2


@fact
async def a_handlers_temporary_table_does_not_hide_the_table_of_the_next_one(world: World) -> None:
    await create_notes(world)
    for number, name in enumerate("abc"):
        claim = await world.start(name)
        transaction, tx = await _statements(world, claim)
        await tx.fetch(ADD_NOTE, note(number))
        await tx.fetch("CREATE TEMPORARY TABLE notes (id integer, body text)")
        await _complete(world, claim, transaction)
    assert len(await notes(world)) == 3


@fact
async def a_handler_with_statements_gets_no_connection(world: World) -> None:
    transaction, tx = await _statements(world, await world.start("a"))
    with refusal("a use of the connection", "ctx.enqueue()", kind=ContextError):
        _ = tx.connection
    await transaction.rollback()


@fact
async def statements_are_for_handlers_that_are_async(world: World) -> None:
    claim = await world.start("a")
    with refusal("a blocking handler", "async", kind=ContextError):
        await world.store.transaction(claim.lease, world.store.database).begin(blocking=True)


@fact
async def a_transaction_takes_the_database_of_its_own_store_only(world: World) -> None:
    claim, other = await world.start("a"), await world.open_second()
    transaction = world.store.transaction(claim.lease, other.database)
    with refusal("another store's database", kind=TypeError):
        await transaction.begin()
    await transaction.rollback()
