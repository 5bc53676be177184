"""Facts about the tables of apps: their rows, and the jobs that are committed with them."""

import asyncio
from typing import Any, cast

from holdfast.jobs.client.enqueue import TransactionalEnqueue
from holdfast.jobs.database_port import DatabaseTransaction, Row
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import Claim, Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ConstraintViolated, StoreError
from holdfast.jobs.transaction_port import AttemptTransaction
from holdfast.testing.conformance.world import World, fact

_CREATE = (
    "CREATE TABLE notes (id integer PRIMARY KEY, body text NOT NULL UNIQUE)",
    "CREATE TABLE tags (note integer NOT NULL REFERENCES notes (id) ON DELETE CASCADE, tag text)",
)
_ADD = "INSERT INTO notes (id, body) VALUES (:id, :body)"
_ALL = "SELECT id, body FROM notes ORDER BY id"
_STATES = """
    SELECT notes.id, states.status, states.attempt_count, states.error_code FROM notes
    LEFT JOIN holdfast_job_states AS states ON states.job_id = 'job-' || notes.id ORDER BY notes.id
"""
_SCHEMA_STATES = _STATES.replace("holdfast_job_states", "holdfast.job_states")
_LONG = """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000)
    SELECT count(*) FROM n
"""
_WAIT = 30.0


async def _create(world: World) -> None:
    async with world.store.database.transaction() as tx:
        for sql in _CREATE:
            await tx.fetch(sql)


async def _notes(world: World) -> list[Row]:
    return await world.store.database.fetch(_ALL)


async def _enqueue(world: World, tx: DatabaseTransaction, job_id: str) -> None:
    joined = cast(TransactionalEnqueue, world.store)
    await joined.enqueue_on(tx.connection, [NewJob(job_id, "work")])


def _note(number: int) -> dict[str, Any]:
    return {"id": number, "body": f"note {number}"}


async def _statements(world: World, claim: Claim) -> tuple[AttemptTransaction, DatabaseTransaction]:
    """Begin the transaction of an attempt, as a handler that gets no connection."""
    transaction = world.store.transaction(claim.lease, world.store.database)
    return transaction, cast(DatabaseTransaction, await transaction.begin())


async def _complete(world: World, claim: Claim, transaction: AttemptTransaction) -> None:
    await transaction.complete(Finished(claim.lease, Completed("1")), now=world.now)
    await transaction.rollback()


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
    await _create(world)
    async with world.store.database.transaction() as tx:
        await tx.execute_many(_ADD, [_note(1), _note(2)])
        assert await tx.fetch(_ALL) == [(1, "note 1"), (2, "note 2")]
        assert await _notes(world) == []
    second = await world.open_second()
    for store in (world.store, second):
        assert await store.database.fetch(_ALL) == [(1, "note 1"), (2, "note 2")]


@fact
async def parameters_are_named_and_may_be_used_twice_or_not_at_all(world: World) -> None:
    await _create(world)
    async with world.store.database.transaction() as tx:
        added = await tx.fetch(f"{_ADD} RETURNING id", {**_note(1), "unused": object()})
        assert added == [(1,)]
    sql = "SELECT body FROM notes WHERE id = :id AND body = :body AND :id = id"
    assert await world.store.database.fetch(sql, _note(1)) == [("note 1",)]
    assert await world.store.database.fetch(sql, {"id": 1, "body": "'; --"}) == []


@fact
async def a_missing_parameter_is_named(world: World) -> None:
    await _create(world)
    error = await _raised(world, _ADD, {"id": 1})
    assert isinstance(error, KeyError)
    assert "body" in str(error)


@fact
async def an_exception_inside_the_block_rolls_all_back(world: World) -> None:
    await _create(world)
    try:
        async with world.store.database.transaction() as tx:
            await tx.fetch(_ADD, _note(1))
            await _enqueue(world, tx, "job")
            raise _Expected
    except _Expected:
        pass
    assert await _notes(world) == []
    assert await world.store.get("job") is None
    assert await _raised(world, _ADD, _note(2)) is None
    assert await _notes(world) == [(2, "note 2")]


@fact
async def a_cancelled_block_changes_nothing(world: World) -> None:
    await _create(world)
    inside = asyncio.Event()

    async def never_ends() -> None:
        async with world.store.database.transaction() as tx:
            await tx.fetch(_ADD, _note(1))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(never_ends())
    await asyncio.wait_for(inside.wait(), _WAIT)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert await _raised(world, _ADD, _note(2)) is None
    assert await _notes(world) == [(2, "note 2")]


@fact
async def rows_and_jobs_are_committed_together(world: World) -> None:
    await _create(world)
    async with world.store.database.transaction() as tx:
        await tx.fetch(_ADD, _note(1))
        await _enqueue(world, tx, "job")
        assert await world.store.get("job") is None
    assert await _notes(world) == [(1, "note 1")]
    assert (await world.job("job")).status is JobStatus.QUEUED


@fact
async def a_waiting_worker_is_woken_by_a_commit_with_jobs(world: World) -> None:
    await _create(world)
    mark = (await world.tick([], 1)).mark
    waiting = asyncio.create_task(world.store.wait_for_work(mark, _WAIT))
    async with world.store.database.transaction() as tx:
        await _enqueue(world, tx, "job")
    assert await waiting


@fact
async def a_broken_constraint_says_so_and_costs_the_whole_transaction(world: World) -> None:
    await _create(world)
    await _raised(world, _ADD, _note(1))
    wrong = ({"id": 1, "body": "another"}, {"id": 2, "body": "note 1"}, {"id": 3, "body": None})
    for note in wrong:
        error = await _raised(world, _ADD, note)
        assert isinstance(error, ConstraintViolated), error
    orphan = "INSERT INTO tags (note, tag) VALUES (:note, 'x')"
    assert isinstance(await _raised(world, orphan, {"note": 7}), ConstraintViolated)
    assert await _notes(world) == [(1, "note 1")]


@fact
async def references_between_tables_are_followed(world: World) -> None:
    await _create(world)
    async with world.store.database.transaction() as tx:
        await tx.fetch(_ADD, _note(1))
        await tx.fetch("INSERT INTO tags (note, tag) VALUES (1, 'x')")
    async with world.store.database.transaction() as tx:
        await tx.fetch("DELETE FROM notes WHERE id = 1")
    assert await world.store.database.fetch("SELECT tag FROM tags") == []


@fact
async def a_wrong_statement_is_an_error_of_the_store(world: World) -> None:
    await _create(world)
    assert isinstance(await _raised(world, "SELECT nothing FROM nowhere", {}), StoreError)
    try:
        await world.store.database.fetch("SELEC 1")
    except StoreError as error:
        assert error.__cause__ is not None  # noqa: PT017 - facts run without pytest
    else:
        raise AssertionError("it was executed")


@fact
async def a_fetch_outside_a_transaction_changes_nothing(world: World) -> None:
    await _create(world)
    try:
        await world.store.database.fetch(_ADD, _note(1))
    except ValueError as error:
        assert "database.transaction()" in str(error)  # noqa: PT017 - facts run without pytest
    else:
        raise AssertionError("it was executed")
    assert await _notes(world) == []


@fact
async def rows_of_a_handler_are_committed_with_its_completion(world: World) -> None:
    await _create(world)
    claim = await world.start("a")
    transaction = world.store.transaction(claim.lease)
    tx = world.store.database.joined(await transaction.begin())
    await tx.execute_many(_ADD, [_note(1)])
    assert await tx.fetch(_ALL) == [(1, "note 1")]
    assert await _notes(world) == []
    await transaction.complete(Finished(claim.lease, Completed("1")), now=world.now)
    await transaction.rollback()
    assert await _notes(world) == [(1, "note 1")]
    assert (await world.job("a")).status is JobStatus.COMPLETE


@fact
async def rows_of_a_handler_are_rolled_back_with_its_transaction(world: World) -> None:
    await _create(world)
    claim = await world.start("a")
    transaction = world.store.transaction(claim.lease)
    tx = world.store.database.joined(await transaction.begin())
    await tx.fetch(_ADD, _note(1))
    await transaction.rollback()
    assert await _notes(world) == []


@fact
async def statements_of_handlers_are_committed_with_their_completions(world: World) -> None:
    await _create(world)
    for number, name in enumerate("abc"):
        claim = await world.start(name)
        transaction, tx = await _statements(world, claim)
        await tx.execute_many(_ADD, [_note(number)])
        assert (number, f"note {number}") in await tx.fetch(_ALL)
        assert len(await _notes(world)) == number
        await _complete(world, claim, transaction)
        assert len(await _notes(world)) == number + 1
        assert (await world.job(name)).status is JobStatus.COMPLETE


@fact
async def statements_of_a_handler_are_rolled_back_with_its_transaction(world: World) -> None:
    await _create(world)
    claim = await world.start("a")
    transaction, tx = await _statements(world, claim)
    await tx.fetch(_ADD, _note(1))
    await transaction.rollback()
    assert await _notes(world) == []
    assert (await world.job("a")).status is JobStatus.PROCESSING


@fact
async def a_late_statement_of_a_handler_does_not_reach_the_next_ones_transaction(
    world: World,
) -> None:
    await _create(world)
    first, second = await world.start("a"), await world.start("b")
    ended, late = await _statements(world, first)
    await late.fetch(_ADD, _note(1))
    await _complete(world, first, ended)
    transaction, tx = await _statements(world, second)
    await tx.fetch(_ADD, _note(2))
    try:
        await late.fetch(_ADD, _note(3))
    except ContextError:
        await _complete(world, second, transaction)
        assert await _notes(world) == [(1, "note 1"), (2, "note 2")]
        return
    raise AssertionError("it was executed")


@fact
async def a_statement_after_a_handlers_rollback_is_refused(world: World) -> None:
    await _create(world)
    transaction, late = await _statements(world, await world.start("a"))
    await transaction.rollback()
    try:
        await late.fetch(_ADD, _note(1))
    except ContextError:
        assert await _notes(world) == []
        return
    raise AssertionError("it was executed")


@fact
async def a_statement_that_still_runs_at_a_handlers_end_rolls_all_back(world: World) -> None:
    await _create(world)
    claim = await world.start("a")
    transaction, tx = await _statements(world, claim)
    await tx.fetch(_ADD, _note(1))
    running = asyncio.create_task(tx.fetch(_LONG))
    await asyncio.sleep(0)  # it has begun
    try:
        await transaction.complete(Finished(claim.lease, Completed("1")), now=world.now)
    except ContextError as error:
        assert "still ran" in str(error)  # noqa: PT017 - facts run without pytest
        await transaction.rollback()
        await asyncio.gather(running, return_exceptions=True)
        assert await _notes(world) == []
        return
    raise AssertionError("it was committed")


@fact
async def a_handlers_temporary_table_does_not_hide_the_table_of_the_next_one(world: World) -> None:
    await _create(world)
    for number, name in enumerate("abc"):
        claim = await world.start(name)
        transaction, tx = await _statements(world, claim)
        await tx.fetch(_ADD, _note(number))
        await tx.fetch("CREATE TEMPORARY TABLE notes (id integer, body text)")
        await _complete(world, claim, transaction)
    assert len(await _notes(world)) == 3


@fact
async def a_handler_with_statements_gets_no_connection(world: World) -> None:
    transaction, tx = await _statements(world, await world.start("a"))
    try:
        _ = tx.connection
    except ContextError as error:
        assert "ctx.enqueue()" in str(error)  # noqa: PT017 - facts run without pytest
        await transaction.rollback()
        return
    raise AssertionError("it was given")


@fact
async def statements_are_for_handlers_that_are_async(world: World) -> None:
    claim = await world.start("a")
    try:
        await world.store.transaction(claim.lease, world.store.database).begin(blocking=True)
    except ContextError as error:
        assert "async" in str(error)  # noqa: PT017 - facts run without pytest
        return
    raise AssertionError("it has begun")


@fact
async def a_transaction_takes_the_database_of_its_own_store_only(world: World) -> None:
    claim, other = await world.start("a"), await world.open_second()
    transaction = world.store.transaction(claim.lease, other.database)
    try:
        await transaction.begin()
    except TypeError:
        await transaction.rollback()
        return
    raise AssertionError("it has begun")


@fact
async def only_the_stores_own_kind_of_connection_is_joined(world: World) -> None:
    try:
        world.store.database.joined(object())
    except TypeError:
        return
    raise AssertionError("it was accepted")


@fact
async def transactions_at_once_all_commit(world: World) -> None:
    await _create(world)

    async def add(number: int) -> None:
        async with world.store.database.transaction() as tx:
            await tx.fetch(_ADD, _note(number))
            await _enqueue(world, tx, f"job-{number}")

    await asyncio.gather(*(add(number) for number in range(20)))
    assert len(await _notes(world)) == 20
    assert (await world.lane()).ready == 20


@fact
async def the_states_of_jobs_can_be_joined_with_an_apps_rows(world: World) -> None:
    await _create(world)
    async with world.store.database.transaction() as tx:
        await tx.execute_many(_ADD, [_note(1), _note(2)])
        await _enqueue(world, tx, "job-1")
    sql = _STATES if world.store.database.dialect == "sqlite" else _SCHEMA_STATES
    assert await world.store.database.fetch(sql) == [(1, "queued", 0, None), (2, None, None, None)]
    await world.finish(await world.claim_one(), Completed())
    assert (await world.store.database.fetch(sql))[0] == (1, "complete", 1, None)
