"""What is committed with the completion of a job: the handler's rows, and the jobs that follow."""

import asyncio
import threading
from typing import Any

import apsw
import pytest
from tests.support import isolated
from tests.support.waiting import SOON, until

from holdfast.bootstrap import Engine
from holdfast.errors import AttemptTimeout, Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import CancelReason, JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.validation import ValidationError
from holdfast.jobs.exceptions import ContextError, LostLease
from holdfast.jobs.job_events import AttemptAbandoned, AttemptFinished, LeaseLost, WriteRefused
from holdfast.jobs.model import JobStatus
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

ONCE = RetryPolicy(max_attempts=1)
AGAIN = RetryPolicy(max_attempts=3, backoff=Exponential(base=0))
ADD = "UPDATE account SET total = total + 1"

app = App("bank")


class World:
    """An engine on a file that also has the handlers' own table."""

    def __init__(self, engine, connection, events):
        self.engine = engine
        self.connection = connection
        self.events = events

    @property
    def total(self):
        return self.connection.execute("SELECT total FROM account").fetchall()[0][0]

    async def run(self, job, *args, **options):
        """Enqueue a job and work until nothing is left; return the job."""
        handle = await self.engine.enqueue(job, *args, **options)
        await self.work()
        return await self.engine.get(handle)

    async def work(self, **options):
        async with asyncio.timeout(SOON):
            await self.engine.work(until_idle=True, options=WorkerOptions(**options))

    async def jobs(self, kind):
        return [job for job in (await self.engine.list(limit=100)).jobs if job.kind == kind]


def play(tmp_path, scenario, *apps):
    async def go():
        path, events = tmp_path / "bank.db", []
        url = f"sqlite:///{path}"
        async with Engine(url, apps=apps or [app], listeners=[events.append]) as engine:
            connection = apsw.Connection(str(path))
            connection.set_busy_timeout(10_000)
            connection.execute("CREATE TABLE account (total INTEGER)")
            connection.execute("INSERT INTO account VALUES (0)")
            try:
                await scenario(World(engine, connection, events))
            finally:
                connection.close()

    asyncio.run(go())


@app.job()
async def follow(ctx: JobContext, args: int) -> int:
    return args


@app.job(retry=AGAIN)
async def deposit(ctx: JobContext, args: str) -> str:
    ctx.enqueue(follow, ctx.attempt)
    async with ctx.transaction() as connection:
        connection.execute(ADD)
        if args == "inside" and ctx.attempt == 1:
            raise ConnectionError("inside the block")
    if args == "after" and ctx.attempt == 1:
        raise ConnectionError("after the block")
    return f"attempt {ctx.attempt}"


@app.job(retry=AGAIN)
def deposit_blocking(ctx: JobContext, args: str) -> str:
    handle = ctx.enqueue(follow, 5)
    with ctx.transaction() as connection:
        connection.execute(ADD)
        if args == "inside" and ctx.attempt == 1:
            raise ConnectionError("inside the block")
    return handle.id


# -- one commit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["nowhere", "inside", "after"])
def test_rows_result_and_jobs_are_those_of_the_attempt_that_completed(tmp_path, where):
    async def scenario(world):
        job = await world.run(deposit, where)
        attempt = 1 if where == "nowhere" else 2
        assert (job.status, job.result) == (JobStatus.COMPLETE, f'"attempt {attempt}"')
        assert world.total == 1
        (child,) = await world.jobs("bank.follow")
        assert child.result == str(attempt)
        finished = [event for event in world.events if isinstance(event, AttemptFinished)]
        assert [str(event.outcome) for event in finished if event.job_id == job.id] == [
            *["retry"] * (attempt - 1), "complete",
        ]  # fmt: skip
        assert not [event for event in world.events if isinstance(event, WriteRefused | LeaseLost)]
        assert (await world.engine.stats()).totals.get("refused_writes", 0) == 0

    play(tmp_path, scenario)


@pytest.mark.parametrize("where", ["nowhere", "inside"])
def test_a_blocking_handler_does_the_same_from_its_thread(tmp_path, where):
    async def scenario(world):
        job = await world.run(deposit_blocking, where)
        assert job.status is JobStatus.COMPLETE
        assert world.total == 1
        (child,) = await world.jobs("bank.follow")
        assert job.result == f'"{child.id}"'

    play(tmp_path, scenario)


def test_a_middleware_may_open_the_transaction_for_every_handler(tmp_path):
    async def in_transaction(ctx, call_next):
        async with ctx.transaction() as connection:
            connection.execute(ADD)
            return await call_next() + 1

    own = App("own", middleware=[in_transaction])

    @own.job()
    def seven(ctx: JobContext) -> int:
        return 7

    async def scenario(world):
        job = await world.run(seven)
        assert (job.result, world.total) == ("8", 1)

    play(tmp_path, scenario, own)


def test_the_callers_own_connection_and_a_function_that_opens_one(tmp_path):
    path, used = str(tmp_path / "bank.db"), []

    def opened():
        used.append(apsw.Connection(path))
        return used[-1]

    own = App("own")

    @own.job()
    async def with_function(ctx: JobContext) -> None:
        async with ctx.transaction(opened) as connection:
            assert connection is used[0]
            connection.execute(ADD)

    @own.job()
    async def with_connection(ctx: JobContext) -> None:
        mine = opened()
        mine.row_trace = lambda cursor, row: dict(enumerate(row))
        async with ctx.transaction(mine) as connection:
            assert connection is mine
            connection.execute(ADD)

    async def scenario(world):
        for job in (with_function, with_connection):
            assert (await world.run(job)).status is JobStatus.COMPLETE
        assert world.total == 2
        with pytest.raises(apsw.ConnectionClosedError):
            used[0].execute("SELECT 1")  # what was opened for the transaction is closed
        used[1].execute(ADD)  # the caller's own commits again as it did before
        assert world.total == 3
        used[1].close()

    play(tmp_path, scenario, own)


def test_a_call_of_a_downstream_counts_with_the_transaction(tmp_path):
    own = App("own")
    breaker = BreakerPolicy(consecutive_failures=3, open_for=60, trial_calls=1)

    @own.job(downstream=Downstream("gateway", breaker=breaker), retry=AGAIN)
    async def call(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ConnectionError("down")
        async with ctx.transaction() as connection:
            connection.execute(ADD)

    async def scenario(world):
        for _ in range(4):
            assert (await world.run(call)).status is JobStatus.COMPLETE
        assert world.total == 4

    play(tmp_path, scenario, own)


# -- jobs that follow ----------------------------------------------------------------------------


def test_jobs_are_dropped_where_the_attempt_fails(tmp_path):
    own = App("own")

    @own.job()
    async def child(ctx: JobContext) -> None: ...

    @own.job(retry=AGAIN)
    async def parent(ctx: JobContext) -> None:
        await ctx.enqueue(child)
        if ctx.attempt < 3:
            raise ConnectionError
        await ctx.enqueue(child, dedup_key="one", delay=60)
        await ctx.enqueue("own.child", dedup_key="one")

    async def scenario(world):
        await world.run(parent)
        children = await world.jobs("own.child")
        assert sorted(str(job.status) for job in children) == ["complete", "queued"]
        (waiting,) = [job for job in children if job.status is JobStatus.QUEUED]
        (done,) = [job for job in children if job.status is JobStatus.COMPLETE]
        assert 50 < waiting.ready_at - done.created_at < 61

    play(tmp_path, scenario, own)


def test_wrong_arguments_and_options_are_refused_at_the_call(tmp_path):
    own, errors = App("own"), []

    @own.job()
    async def child(ctx: JobContext, args: int) -> None: ...

    @own.job(retry=ONCE)
    async def parent(ctx: JobContext) -> None:
        calls: list[tuple[Any, Any, Any]] = [
            (child, "text", {}), (child, 1, {"run_at": 60}), ("own.unknown", None, {}), (7, 1, {}),
        ]  # fmt: skip
        for job, args, options in calls:
            try:
                ctx.enqueue(job, args, **options)
            except Exception as error:
                errors.append(type(error).__name__)

    async def scenario(world):
        assert (await world.run(parent)).status is JobStatus.COMPLETE
        assert errors == ["ValidationError", "ValidationError", "UnknownKind", "TypeError"]
        assert await world.jobs("own.child") == []

    play(tmp_path, scenario, own)


def test_one_key_with_different_rules_is_refused_at_the_call(tmp_path):
    own = App("own")

    @own.job()
    async def child(ctx: JobContext) -> None: ...

    @own.job(retry=ONCE)
    async def parent(ctx: JobContext) -> None:
        ctx.enqueue(child, dedup_key="k", dedup="unfinished")
        ctx.enqueue(child, dedup_key="other", dedup_for=60)
        ctx.enqueue(child, dedup_key="k", dedup="unfinished")
        with pytest.raises(ValidationError, match="'k' have different dedup or dedup_for"):
            ctx.enqueue(child, dedup_key="k")

    async def scenario(world):
        assert (await world.run(parent)).status is JobStatus.COMPLETE
        assert len(await world.jobs("own.child")) == 2

    play(tmp_path, scenario, own)


def test_after_its_end_an_attempt_accepts_nothing(tmp_path):
    own, kept = App("own"), []

    @own.job(retry=ONCE)
    async def parent(ctx: JobContext) -> None:
        kept.append(ctx)

    async def scenario(world):
        await world.run(parent)
        for use in (lambda: kept[0].enqueue(parent), kept[0].transaction):
            with pytest.raises(ContextError, match="the attempt has ended"):
                use()

    play(tmp_path, scenario, own)


# -- clear errors --------------------------------------------------------------------------------


async def _failed(world, job):
    done = await world.run(job)
    assert done.status is JobStatus.FAILED
    assert world.total == 0
    return f"{done.error.code}: {done.error.message}"


def test_a_second_transaction_is_refused_at_the_call(tmp_path):
    own = App("own")

    @own.job(retry=AGAIN)
    async def twice(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.execute(ADD)
        ctx.transaction()

    async def scenario(world):
        assert "may be called once in an attempt" in await _failed(world, twice)
        assert len(await world.engine.attempts((await world.jobs("own.twice"))[0])) == 1

    play(tmp_path, scenario, own)


def test_the_wrong_kind_of_with_is_refused(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    async def plain_with(ctx: JobContext) -> None:
        with ctx.transaction():
            pass

    @own.job(retry=ONCE)
    def own_loop(ctx: JobContext) -> None:
        async def inside():
            async with ctx.transaction():
                pass

        asyncio.run(inside())

    async def scenario(world):
        assert "write `async with" in await _failed(world, plain_with)
        assert "another event loop" in await _failed(world, own_loop)

    play(tmp_path, scenario, own)


def test_a_block_that_has_not_ended_is_rolled_back_and_fails(tmp_path):
    own, tasks = App("own"), []

    @own.job(retry=ONCE)
    async def leaks(ctx: JobContext) -> None:
        async def inside():
            async with ctx.transaction() as connection:
                connection.execute(ADD)
                entered.set()
                await asyncio.sleep(3600)

        entered = asyncio.Event()
        tasks.append(asyncio.create_task(inside()))
        await entered.wait()

    async def scenario(world):
        assert "had not ended" in await _failed(world, leaks)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(tmp_path, scenario, own)


def test_a_handler_cannot_commit_by_itself(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    async def commits(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.execute(ADD)
            with pytest.raises(apsw.ConstraintError):
                connection.execute("COMMIT")
            with pytest.raises(apsw.ConstraintError):
                connection.execute(ADD)

    async def scenario(world):
        assert "ended inside the block" in await _failed(world, commits)

    play(tmp_path, scenario, own)


def test_a_commit_of_the_handlers_own_fails_with_an_error_that_says_so(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    def commits(ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            connection.execute(ADD)
            connection.execute("COMMIT")

    @own.job(retry=ONCE)
    def breaks_a_constraint(ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            connection.execute("CREATE TABLE mine (value NOT NULL)")
            connection.execute("INSERT INTO mine VALUES (NULL)")

    async def scenario(world):
        error = await _failed(world, commits)
        assert error.startswith("INVALID_STATE")
        assert "ended inside the block" in error
        assert "NOT NULL constraint failed" in await _failed(world, breaks_a_constraint)

    play(tmp_path, scenario, own)


def test_what_is_no_connection_to_the_file_is_refused(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    async def text(ctx: JobContext) -> None:
        async with ctx.transaction("text"):
            pass

    @own.job(retry=ONCE)
    async def begun(ctx: JobContext) -> None:
        connection = apsw.Connection(str(tmp_path / "bank.db"))
        connection.execute("BEGIN")
        async with ctx.transaction(connection):
            pass

    async def scenario(world):
        assert "takes an apsw connection" in await _failed(world, text)
        assert "has an open transaction" in await _failed(world, begun)

    play(tmp_path, scenario, own)


def test_in_a_child_process_each_is_refused_with_the_reason(tmp_path):
    async def scenario(world):
        job = await world.run(isolated.surroundings)
        refusals = await world.engine.result(job)
        assert len(refusals) == 5
        assert all("INVALID_STATE" in line and 'isolation="process"' in line for line in refusals)

    play(tmp_path, scenario, isolated.context_app)


def test_after_the_lease_is_lost_the_call_is_refused(tmp_path):
    own, seen = App("own"), []

    @own.job(retry=ONCE)
    async def late(ctx: JobContext) -> None:
        ctx.request_cancel(CancelReason.LEASE_LOST)
        try:
            ctx.transaction()
        except LostLease as error:
            seen.append(str(error))

    async def scenario(world):
        await world.run(late)
        assert "the lease is lost" in seen[0]

    play(tmp_path, scenario, own)


# -- the only write lock -------------------------------------------------------------------------


async def _rolled_back(connection):
    """Return once the transaction on `connection` has ended."""
    async with asyncio.timeout(SOON):
        while connection.in_transaction:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("then", [None, ADD, "INSERT INTO mine VALUES (1)"])
def test_a_transaction_that_takes_too_long_is_rolled_back_with_a_clear_error(tmp_path, then):
    own, began, free = App("own"), threading.Event(), threading.Event()
    retry = RetryPolicy(max_attempts=2, backoff=Exponential(base=0))

    @own.job(retry=retry)
    async def slow(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.execute(ADD)
            connection.execute("CREATE TABLE mine (value)")
            began.set()
            await asyncio.to_thread(free.wait, SOON)
            if ctx.attempt == 2:
                await _rolled_back(connection)
            if then is not None:
                connection.execute(then)

    def take_lock():
        """Take the write lock on another connection, although the handler goes on."""
        began.wait(SOON)
        connection = apsw.Connection(str(tmp_path / "bank.db"))
        connection.set_busy_timeout(int(SOON * 1000))
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        connection.close()

    async def scenario(world):
        handle = await world.engine.enqueue(slow)
        working = asyncio.create_task(world.work(transaction_seconds=0.2))
        await asyncio.to_thread(take_lock)
        free.set()
        await working
        job = await world.engine.get(handle)
        assert job.error.code == "IO_ERROR"
        assert "more than 0.2 s and was rolled back" in job.error.message
        assert len(await world.engine.attempts(handle)) == 2
        assert world.total == 0

    play(tmp_path, scenario, own)


def test_a_statement_that_runs_when_the_time_is_over_is_interrupted(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    def endless(ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            connection.execute(ADD)
            connection.execute(
                "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
                "SELECT count(*) FROM c"
            ).fetchall()

    async def scenario(world):
        handle = await world.engine.enqueue(endless)
        await world.work(transaction_seconds=0.2)
        job = await world.engine.get(handle)
        assert (job.status, job.error.code) == (JobStatus.FAILED, "IO_ERROR")
        assert "more than 0.2 s and was rolled back" in job.error.message
        assert world.total == 0

    play(tmp_path, scenario, own)


def test_other_jobs_and_heartbeats_take_turns_with_transactions(tmp_path):
    """A lease is extended again and again, while transactions hold the lock all the time."""
    own, has_waited = App("own"), asyncio.Event()
    seen, connections = set(), []

    def lease_of(job_id):
        find = "SELECT lease_expires_at FROM holdfast_jobs WHERE id = ?"
        return connections[0].execute(find, (job_id,)).fetchall()[0][0]

    @own.job(retry=ONCE)
    async def holds(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.execute(ADD)
            await asyncio.sleep(0.05)
        if not has_waited.is_set():
            ctx.enqueue(holds)

    @own.job(retry=ONCE)
    async def waits(ctx: JobContext) -> None:
        await until(lambda: seen.add(lease_of(ctx.job_id)) or len(seen) > 3)
        has_waited.set()

    async def scenario(world):
        connections.append(world.connection)
        for job in (holds, holds, holds, waits):
            await world.engine.enqueue(job)
        await world.work(lease_seconds=30.0, extend_every=0.1)
        assert world.total >= 3
        assert not [event for event in world.events if isinstance(event, LeaseLost)]
        statuses = {job.status for job in (await world.engine.list(limit=100)).jobs}
        assert statuses == {JobStatus.COMPLETE}

    play(tmp_path, scenario, own)


def test_the_limit_is_checked_against_the_lease():
    assert WorkerOptions().longest_transaction == 3.0
    assert WorkerOptions(lease_seconds=4, extend_every=1).longest_transaction == 1.0
    with pytest.raises(ValueError, match="at most a quarter of lease_seconds"):
        WorkerOptions(lease_seconds=8, extend_every=1, transaction_seconds=3)


# -- commits without an answer -------------------------------------------------------------------


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_whose_answer_is_lost_is_neither_repeated_nor_taken_for_done(
    tmp_path, is_committed
):
    async def scenario(world):
        make, lost = world.engine.store.transaction, []

        def transaction(*args, **options):
            made = make(*args, **options)
            complete = made.complete

            async def without_answer(finished):
                if lost:
                    return await complete(finished)
                lost.append(finished)
                if is_committed:
                    await complete(finished)
                raise ConnectionResetError("the answer is lost")

            made.complete = without_answer
            return made

        world.engine.store.transaction = transaction
        job = await world.run(deposit, "nowhere")
        attempt = 1 if is_committed else 2
        assert (job.status, job.result) == (JobStatus.COMPLETE, f'"attempt {attempt}"')
        assert world.total == 1
        assert [child.result for child in await world.jobs("bank.follow")] == [str(attempt)]
        assert len(await world.engine.attempts(job)) == attempt
        assert len([e for e in world.events if isinstance(e, WriteRefused)]) == int(is_committed)

    play(tmp_path, scenario)


# -- stopping ------------------------------------------------------------------------------------


def test_after_a_commit_that_failed_the_run_can_be_cancelled_again(tmp_path):
    async def scenario(world):
        make, is_rolled_back = world.engine.store.transaction, asyncio.Event()

        def transaction(*args, **options):
            made = make(*args, **options)
            rollback = made.rollback

            async def fails(finished):
                raise ConnectionResetError("not committed")

            async def never_ends():
                await rollback()
                is_rolled_back.set()
                await asyncio.Event().wait()

            made.complete, made.rollback = fails, never_ends
            return made

        world.engine.store.transaction = transaction
        handle = await world.engine.enqueue(deposit, "nowhere")
        options = {"extend_every": 0.1, "cleanup_seconds": 2 * SOON}
        working = asyncio.create_task(world.work(**options))
        async with asyncio.timeout(SOON):
            await is_rolled_back.wait()
        await world.engine.cancel(handle)
        await working
        assert (await world.engine.get(handle)).status is JobStatus.CANCELLED
        assert world.total == 0

    play(tmp_path, scenario)


def test_a_timeout_inside_the_block_rolls_back(tmp_path):
    own = App("own")

    @own.job(retry=ONCE, timeout=0.1)
    async def hangs(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.execute(ADD)
            await asyncio.Event().wait()

    async def scenario(world):
        assert "TIMEOUT" in await _failed(world, hangs)

    play(tmp_path, scenario, own)


def test_a_deadline_that_passes_before_the_commit_rolls_back(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    def late(ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            connection.execute(ADD)
            threading.Event().wait(0.3)

    async def scenario(world):
        handle = await world.engine.enqueue(late, deadline=0.2)
        await world.work()
        job = await world.engine.get(handle)
        assert (job.status, job.error.code) == (JobStatus.FAILED, "TIMEOUT")
        assert world.total == 0
        assert await world.engine.late_results(handle) == ()

    play(tmp_path, scenario, own)


def test_an_abandoned_handler_commits_nothing(tmp_path):
    own, free = App("own"), threading.Event()

    @own.job(retry=ONCE, timeout=0.1)
    def stuck(ctx: JobContext) -> str:
        with ctx.transaction() as connection:
            connection.execute(ADD)
        free.wait(SOON)
        return "late"

    async def scenario(world):
        handle = await world.engine.enqueue(stuck)
        working = asyncio.create_task(world.work(cleanup_seconds=0.1, transaction_seconds=30))
        await until(lambda: any(isinstance(each, AttemptAbandoned) for each in world.events))
        free.set()
        await working
        job = await world.engine.get(handle)
        assert (job.status, job.error.code) == (JobStatus.FAILED, "TIMEOUT")
        assert world.total == 0
        # The transaction held the write lock, so the timeout was reported after the late return.
        (finished,) = [each for each in world.events if isinstance(each, AttemptFinished)]
        assert isinstance(finished.error, AttemptTimeout)

    play(tmp_path, scenario, own)


def test_a_result_that_cannot_be_stored_rolls_back(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    async def unstorable(ctx: JobContext) -> object:
        async with ctx.transaction() as connection:
            connection.execute(ADD)
        return object()

    @own.job(retry=ONCE)
    async def refuses(ctx: JobContext) -> object:
        async with ctx.transaction() as connection:
            connection.execute(ADD)
        raise Permanent("NO", "after all")

    async def scenario(world):
        assert "VALIDATION_ERROR" in await _failed(world, unstorable)
        assert "NO: after all" in await _failed(world, refuses)

    play(tmp_path, scenario, own)


def test_an_error_inside_the_block_may_be_handled_outside(tmp_path):
    own = App("own")

    @own.job(retry=ONCE)
    async def careful(ctx: JobContext) -> str:
        try:
            async with ctx.transaction() as connection:
                connection.execute(ADD)
                connection.execute("INSERT INTO nowhere VALUES (1)")
        except apsw.SQLError:
            return "rolled back"
        return "committed"

    async def scenario(world):
        job = await world.run(careful)
        assert (job.result, world.total) == ('"rolled back"', 0)

    play(tmp_path, scenario, own)
