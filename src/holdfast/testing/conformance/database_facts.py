"""Facts about the tables of apps: their rows, and the jobs that are committed with them."""

import asyncio
from typing import Any, cast

from holdfast.jobs.client.enqueue import TransactionalEnqueue
from holdfast.jobs.database_port import DatabaseTransaction
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ConstraintViolated, StoreError
from holdfast.testing.conformance.notes_table import (
    ADD_NOTE,
    ALL_NOTES,
    LONG_QUERY,
    create_notes,
    note,
    notes,
)
from holdfast.testing.conformance.world import World, fact, refusal

_STATES = """
    SELECT notes.id, states.status, states.attempt_count, states.error_code FROM notes
    LEFT JOIN holdfast_job_states AS states ON states.job_id = 'job-' || notes.id ORDER BY notes.id
"""
_SCHEMA_STATES = _STATES.replace("holdfast_job_states", "holdfast.job_states")
_WAIT = 30.0


async def _enqueue(world: World, tx: DatabaseTransaction, job_id: str) -> None:
    joined = cast(TransactionalEnqueue, world.store)
    await joined.enqueue_on(tx.connection, [NewJob(job_id, "work")])


class _Expected(Exception):
    """Raised by a fact inside a block."""


async def _raised(world: World, sql: str, parameters: dict[str, Any]) -> Exception | None:
    """Return what a statement raises in a transaction of its own."""
    try:
        async with world.store.database.transaction() as tx:
            await tx.fetch(sql, parameters)
    except Exception as error:
        return error
    return None


@fact
async def rows_of_a_transaction_are_read_after_its_commit_by_every_handle(world: World) -> None:
    await create_notes(world)
    async with world.store.database.transaction() as tx:
        await tx.execute_many(ADD_NOTE, [note(1), note(2)])
        assert await tx.fetch(ALL_NOTES) == [(1, "note 1"), (2, "note 2")]
        assert await notes(world) == []
    second = await world.open_second()
    for store in (world.store, second):
        assert await store.database.fetch(ALL_NOTES) == [(1, "note 1"), (2, "note 2")]


@fact
async def parameters_are_named_and_may_be_used_twice_or_not_at_all(world: World) -> None:
    await create_notes(world)
    async with world.store.database.transaction() as tx:
        added = await tx.fetch(f"{ADD_NOTE} RETURNING id", {**note(1), "unused": object()})
        assert added == [(1,)]
    sql = "SELECT body FROM notes WHERE id = :id AND body = :body AND :id = id"
    assert await world.store.database.fetch(sql, note(1)) == [("note 1",)]
    assert await world.store.database.fetch(sql, {"id": 1, "body": "'; --"}) == []


@fact
async def a_missing_parameter_is_named(world: World) -> None:
    await create_notes(world)
    error = await _raised(world, ADD_NOTE, {"id": 1})
    assert isinstance(error, KeyError)
    assert "body" in str(error)


@fact
async def an_exception_inside_the_block_rolls_all_back(world: World) -> None:
    await create_notes(world)
    try:
        async with world.store.database.transaction() as tx:
            await tx.fetch(ADD_NOTE, note(1))
            await _enqueue(world, tx, "job")
            raise _Expected
    except _Expected:
        pass
    assert await notes(world) == []
    assert await world.store.get("job") is None
    assert await _raised(world, ADD_NOTE, note(2)) is None
    assert await notes(world) == [(2, "note 2")]


@fact
async def a_cancelled_block_changes_nothing(world: World) -> None:
    await create_notes(world)
    inside = asyncio.Event()

    async def never_ends() -> None:
        async with world.store.database.transaction() as tx:
            await tx.fetch(ADD_NOTE, note(1))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(never_ends())
    await asyncio.wait_for(inside.wait(), _WAIT)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert await _raised(world, ADD_NOTE, note(2)) is None
    assert await notes(world) == [(2, "note 2")]


@fact
async def rows_and_jobs_are_committed_together(world: World) -> None:
    await create_notes(world)
    async with world.store.database.transaction() as tx:
        await tx.fetch(ADD_NOTE, note(1))
        await _enqueue(world, tx, "job")
        assert await world.store.get("job") is None
    assert await notes(world) == [(1, "note 1")]
    assert (await world.job("job")).status is JobStatus.QUEUED


@fact
async def a_waiting_worker_is_woken_by_a_commit_with_jobs(world: World) -> None:
    await create_notes(world)
    mark = (await world.tick([], 1)).mark
    waiting = asyncio.create_task(world.store.wait_for_work(mark, _WAIT))
    async with world.store.database.transaction() as tx:
        await _enqueue(world, tx, "job")
    assert await waiting


@fact
async def a_broken_constraint_says_so_and_costs_the_whole_transaction(world: World) -> None:
    await create_notes(world)
    await _raised(world, ADD_NOTE, note(1))
    wrong = ({"id": 1, "body": "another"}, {"id": 2, "body": "note 1"}, {"id": 3, "body": None})
    for each in wrong:
        error = await _raised(world, ADD_NOTE, each)
        assert isinstance(error, ConstraintViolated), error
    orphan = "INSERT INTO tags (note, tag) VALUES (:note, 'x')"
    assert isinstance(await _raised(world, orphan, {"note": 7}), ConstraintViolated)
    assert await notes(world) == [(1, "note 1")]


@fact
async def references_between_tables_are_followed(world: World) -> None:
    await create_notes(world)
    async with world.store.database.transaction() as tx:
        await tx.fetch(ADD_NOTE, note(1))
        await tx.fetch("INSERT INTO tags (note, tag) VALUES (1, 'x')")
    async with world.store.database.transaction() as tx:
        await tx.fetch("DELETE FROM notes WHERE id = 1")
    assert await world.store.database.fetch("SELECT tag FROM tags") == []


@fact
async def a_wrong_statement_is_an_error_of_the_store(world: World) -> None:
    await create_notes(world)
    assert isinstance(await _raised(world, "SELECT nothing FROM nowhere", {}), StoreError)
    try:
        await world.store.database.fetch("SELEC 1")
    except StoreError as error:
        assert error.__cause__ is not None  # noqa: PT017 - facts run without pytest
    else:
        raise AssertionError("it was executed")


@fact
async def a_fetch_outside_a_transaction_changes_nothing(world: World) -> None:
    await create_notes(world)
    with refusal("a change", "database.transaction()"):
        await world.store.database.fetch(ADD_NOTE, note(1))
    assert await notes(world) == []


@fact
async def a_late_statement_of_a_block_does_not_reach_the_next_ones_transaction(
    world: World,
) -> None:
    await create_notes(world)
    async with world.store.database.transaction() as late:
        await late.fetch(ADD_NOTE, note(1))
    async with world.store.database.transaction() as tx:
        await tx.fetch(ADD_NOTE, note(2))
        with refusal("a late statement", "inside the block", kind=ContextError):
            await late.fetch(ADD_NOTE, note(3))
        with refusal("late statements", "inside the block", kind=ContextError):
            await late.execute_many(ADD_NOTE, [note(3)])
        with refusal("a late connection", "inside the block", kind=ContextError):
            await _enqueue(world, late, "job")
    assert await notes(world) == [(1, "note 1"), (2, "note 2")]


@fact
async def a_statement_that_still_runs_at_the_end_of_a_block_rolls_all_back(world: World) -> None:
    await create_notes(world)
    with refusal("the end", "still ran", kind=ContextError):
        async with world.store.database.transaction() as tx:
            await tx.fetch(ADD_NOTE, note(1))
            running = asyncio.create_task(tx.fetch(LONG_QUERY))
            await asyncio.sleep(0)  # it has begun
    await asyncio.gather(running, return_exceptions=True)
    assert await notes(world) == []


@fact
async def a_temporary_table_of_a_block_does_not_hide_the_table_of_the_next_one(
    world: World,
) -> None:
    await create_notes(world)
    for number in range(3):
        async with world.store.database.transaction() as tx:
            await tx.fetch(ADD_NOTE, note(number))
            await tx.fetch("CREATE TEMPORARY TABLE notes (id integer, body text)")
    assert len(await notes(world)) == 3


@fact
async def rows_of_a_handler_are_committed_with_its_completion(world: World) -> None:
    await create_notes(world)
    claim = await world.start("a")
    transaction = world.store.transaction(claim.lease)
    tx = world.store.database.joined(await transaction.begin())
    await tx.execute_many(ADD_NOTE, [note(1)])
    assert await tx.fetch(ALL_NOTES) == [(1, "note 1")]
    assert await notes(world) == []
    await transaction.complete(Finished(claim.lease, Completed("1")), now=world.now)
    await transaction.rollback()
    assert await notes(world) == [(1, "note 1")]
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def rows_of_a_handler_are_rolled_back_with_its_transaction(world: World) -> None:
    await create_notes(world)
    claim = await world.start("a")
    transaction = world.store.transaction(claim.lease)
    tx = world.store.database.joined(await transaction.begin())
    await tx.fetch(ADD_NOTE, note(1))
    await transaction.rollback()
    assert await notes(world) == []


@fact
async def only_the_stores_own_kind_of_connection_is_joined(world: World) -> None:
    with refusal("another kind of connection", kind=TypeError):
        world.store.database.joined(object())


@fact
async def transactions_at_once_all_commit(world: World) -> None:
    await create_notes(world)

    async def add(number: int) -> None:
        async with world.store.database.transaction() as tx:
            await tx.fetch(ADD_NOTE, note(number))
            await _enqueue(world, tx, f"job-{number}")

    await asyncio.gather(*(add(number) for number in range(20)))
    assert len(await notes(world)) == 20
    assert (await world.lane()).ready == 20


@fact
async def the_states_of_jobs_can_be_joined_with_an_apps_rows(world: World) -> None:
    await create_notes(world)
    async with world.store.database.transaction() as tx:
        await tx.execute_many(ADD_NOTE, [note(1), note(2)])
        await _enqueue(world, tx, "job-1")
    sql = _STATES if world.store.database.dialect == "sqlite" else _SCHEMA_STATES
    assert await world.store.database.fetch(sql) == [(1, "queued", 0, None), (2, None, None, None)]
    await world.finish(await world.claim_one(), Completed())
    assert (await world.store.database.fetch(sql))[0] == (1, "complete", 1, None)
