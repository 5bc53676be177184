"""Enqueueing in bulk, and by concurrent callers."""

import asyncio

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, a_session_waits, jobs

from holdfast.ids import new_ids
from holdfast.jobs.model import Enqueued, JobStatus, NewJob
from holdfast.jobs.store_port import RetentionRule, StoreError


@pytest.mark.parametrize("text", ["\x00", "\ud800"])
@pytest.mark.parametrize("field", ["arguments", "dedup_key", "owner"])
def test_text_that_cannot_be_stored_is_an_error_of_the_caller(play, field, text):
    async def scenario(store):
        with pytest.raises((ValueError, StoreError), match=r"a|b"):
            await store.enqueue([NewJob("a", "work"), NewJob("b", "work", **{field: text})])
        assert (await store.list_jobs()).jobs == ()

    play(scenario)


def test_a_bulk_with_taken_ids_creates_the_rest(play):
    async def scenario(store):
        await store.enqueue(jobs(3))
        answers = await store.enqueue(jobs(5))
        assert [answer.created for answer in answers] == [False] * 3 + [True] * 2
        assert [answer.id for answer in answers] == [job.id for job in jobs(5)]
        assert len(await store.events("job-00000")) == 1
        (lane,) = (await store.stats()).lanes
        assert lane.ready == 5

    play(scenario)


def test_a_bulk_that_comes_again_while_it_is_being_created_is_created_once(bench):
    """A caller whose connection broke retries while the first request may still be running."""

    async def scenario():
        async with bench.stores(4, connections=2) as stores:
            made = new_ids(200, 0.0)
            bulk = [NewJob(one, "work") for one in made]
            answers = await asyncio.gather(*(store.enqueue(bulk) for store in stores * 2))
            assert sum(answer.created for some in answers for answer in some) == len(made)
            assert {tuple(answer.id for answer in some) for some in answers} == {tuple(made)}
            assert (await stores[0].stats()).lanes[0].ready == len(made)

    asyncio.run(scenario())


async def empty_lane(bench, store):
    """Leave a lane without jobs, which the store remembers: the next fold deletes it."""
    await store.enqueue(jobs(1))
    await bench.drain(store, "w")
    assert await store.delete(["job-00000"])
    assert await bench.execute("SELECT count(*) FROM holdfast.lanes") == [(1,)]


def test_a_job_alone_finds_its_lane_again_that_was_deleted(bench, play):
    async def scenario(store):
        await empty_lane(bench, store)
        await store.rescue()  # folds the counters, and deletes the lane with them
        assert await bench.execute("SELECT count(*) FROM holdfast.lanes") == [(0,)]
        assert await store.enqueue(jobs(1, prefix="next")) == (Enqueued("next-00000", True),)
        assert await bench.drain(store, "w") == ["next-00000"]

    play(scenario)


async def jobs_without_a_lane(bench):
    return await bench.execute(
        "SELECT id FROM holdfast.jobs WHERE lane NOT IN (SELECT id FROM holdfast.lanes)"
    )


def test_a_job_alone_waits_for_the_deletion_of_its_lane_and_gets_a_new_one(bench, play):
    async def scenario(store):
        await empty_lane(bench, store)
        connection = await asyncpg.connect(bench.url)
        async with connection.transaction():
            await connection.execute("SELECT holdfast.fold_counters()")
            assert await connection.fetchval("SELECT count(*) FROM holdfast.lanes") == 0
            task = asyncio.create_task(store.enqueue(jobs(1, prefix="next")))
            await a_session_waits(connection)
        await connection.close()
        assert await task == (Enqueued("next-00000", True),)
        assert await jobs_without_a_lane(bench) == []
        assert await bench.drain(store, "w") == ["next-00000"]

    play(scenario)


def test_a_lane_is_not_deleted_while_a_job_alone_is_being_created_in_it(bench, play):
    """The statement that creates the job stops at its id, which another transaction has taken."""

    async def scenario(store):
        await empty_lane(bench, store)
        connection = await asyncpg.connect(bench.url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO holdfast.ids (id, job) VALUES ('next-00000', 0)")
        task = asyncio.create_task(store.enqueue(jobs(1, prefix="next")))
        await a_session_waits(connection)
        await bench.execute("SELECT holdfast.fold_counters()")
        await transaction.rollback()
        await connection.close()
        assert await task == (Enqueued("next-00000", True),)
        assert await jobs_without_a_lane(bench) == []
        assert await bench.drain(store, "w") == ["next-00000"]

    play(scenario)


def test_a_job_alone_is_created_where_the_queue_of_notifications_is_full(bench, play):
    """A notification goes with its commit, and fails with it."""

    async def scenario(store):
        write, refused = store._database.write, []

        async def full(query, **parameters):
            if parameters.get("payload") is not None:
                refused.append(query)
                cause = asyncpg.ProgramLimitExceededError("too many notifications in the queue")
                raise StoreError(str(cause)) from cause
            return await write(query, **parameters)

        store._database.write = full
        assert await store.enqueue(jobs(1)) == (Enqueued("job-00000", True),)
        assert refused == ["enqueue_one"]
        assert await bench.drain(store, "w") == ["job-00000"]

    play(scenario)


@pytest.mark.parametrize("text", ["\x00", "\ud800"])
def test_a_job_alone_with_text_that_cannot_be_stored_is_an_error_of_the_caller(play, text):
    async def scenario(store):
        with pytest.raises(ValueError, match="owner holds"):
            await store.enqueue([NewJob("a", "work", owner=text)])
        assert (await store.list_jobs()).jobs == ()

    play(scenario)


@pytest.mark.parametrize("first", ["bulk", "one"])
def test_an_id_is_created_once_in_a_bulk_or_alone(bench, first):
    """The second caller waits until the first has committed."""

    async def scenario():
        bulk = jobs(4)
        one = bulk[2:3]
        before, after = (bulk, one) if first == "bulk" else (one, bulk)
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            transaction = connection.transaction()
            await transaction.start()
            assert all(answer.created for answer in await store.enqueue_on(connection, before))
            task = asyncio.create_task(store.enqueue(after))
            await a_session_waits(connection)
            await transaction.commit()
            await connection.close()
            created = {answer.id: answer.created for answer in await task}
            assert created == {job.id: job not in before for job in after}
            assert len((await store.list_jobs()).jobs) == len(bulk)

    asyncio.run(scenario())


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
@pytest.mark.parametrize("again", [slice(0, 4), slice(1, 3)], ids=["all", "some"])
def test_a_transaction_that_cannot_see_a_bulk_does_not_create_it_again(bench, isolation, again):
    async def scenario():
        bulk = jobs(4)
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            transaction = connection.transaction(isolation=isolation)
            await transaction.start()
            await connection.fetch("SELECT FROM holdfast.jobs")
            await store.enqueue(bulk)
            with pytest.raises(asyncpg.PostgresError, match=r"serialize|unique"):
                await store.enqueue_on(connection, bulk[again])
            await connection.close()
            assert len((await store.list_jobs()).jobs) == len(bulk)

    asyncio.run(scenario())


def test_ids_that_come_again_while_they_are_deleted_are_found_and_there_once(bench):
    async def scenario():
        async with bench.stores(3, connections=2) as stores:
            rule = RetentionRule("work", JobStatus.COMPLETE, max_count=0)
            for _ in range(15):
                bulk = [NewJob(name, "work") for name in new_ids(6, 0.0)]
                await stores[0].enqueue(bulk)
                await bench.drain(stores[0], "w")
                await asyncio.gather(
                    stores[0].delete_finished(rule, limit=4),
                    stores[1].enqueue(bulk),
                    stores[2].enqueue(bulk[2:4]),
                )
                await stores[0].enqueue(bulk)
                stored = [job.id for job in (await stores[0].list_jobs()).jobs]
                assert sorted(stored) == sorted(job.id for job in bulk)
                assert all([await stores[0].get(job.id) is not None for job in bulk])
                await bench.drain(stores[0], "w")
                while await stores[0].delete_finished(rule):
                    pass

    asyncio.run(scenario())


def test_a_large_bulk_of_both_statuses_is_one_statement(play):
    async def scenario(store):
        both = [JobStatus.QUEUED, JobStatus.UPLOADED]
        bulk = [
            NewJob(name, "work", status=both[place % 2])
            for place, name in enumerate(new_ids(5000, 0.0))
        ]
        assert all(answer.created for answer in await store.enqueue(bulk))
        (lane,) = (await store.stats()).lanes
        assert (lane.ready, lane.uploaded) == (2500, 2500)
        assert len(await store.changes_since(0, limit=9000)) == 5000
        claims = (await store.tick("w", claim=ANY)).claims
        assert [claim.job_id for claim in claims] == [job.id for job in bulk[: 2 * ANY.limit : 2]]

    play(scenario)


def test_a_bulk_with_keys_runs_in_its_own_order(play):
    async def scenario(store):
        keys = ["z", "m", "a", None, "q"]
        await store.enqueue([NewJob(f"{n}", "work", dedup_key=key) for n, key in enumerate(keys)])
        claims = (await store.tick("w", claim=ANY)).claims
        assert [claim.job_id for claim in claims] == ["0", "1", "2", "3", "4"]

    play(scenario)


def test_a_twin_that_fails_between_two_looks_makes_room(bench):
    """Concurrent enqueueing and cancelling of one key: never two live duplicates."""

    async def scenario():
        async with bench.stores(3, connections=4) as stores:
            alive = 0

            async def ask(store, name):
                for n in range(30):
                    (answer,) = await store.enqueue([NewJob(f"{name}-{n}", "work", dedup_key="k")])
                    assert answer.id
                    await store.cancel(answer.id)

            await asyncio.gather(*(ask(store, f"w{n}") for n, store in enumerate(stores)))
            alive = [job for job in (await stores[0].list_jobs()).jobs if not job.status.finished]
            assert alive == []

    asyncio.run(scenario())


def test_a_large_bulk_of_many_lanes_is_counted_right(play):
    async def scenario(store):
        batch = [
            NewJob(
                f"{n}",
                f"kind-{n % 7}",
                queue=f"q-{n % 3}",
                downstream=f"d-{n % 5}",
                priority=n % 11,
                run_at=9e9 if n % 2 else None,
            )
            for n in range(3000)
        ]
        await store.enqueue(batch)
        lanes = (await store.stats()).lanes
        assert len(lanes) == 7 * 3 * 5
        assert sum(lane.ready for lane in lanes) == 1500
        assert sum(lane.scheduled for lane in lanes) == 1500

    play(scenario)


def test_large_arguments_survive(play):
    async def scenario(store):
        text = '"' + "é" * 200_000 + '"'
        await store.enqueue([NewJob("a", "work", arguments=text)])
        (claim,) = (await store.tick("w", claim=ANY)).claims
        assert claim.arguments == text

    play(scenario)


def test_an_id_that_no_index_can_hold_is_an_error(play):
    async def scenario(store):
        with pytest.raises(StoreError):
            await store.enqueue([NewJob("".join(chr(256 + n) for n in range(20_000)), "work")])

    play(scenario)


@pytest.fixture
def short_pages(monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.enqueue.PAGE", 3)


def test_more_jobs_than_a_page_of_history_holds_are_created_together(play, short_pages):
    async def scenario(store):
        batch = jobs(8)
        batch[6] = NewJob("twin", "work", dedup_key="k")
        batch[1] = NewJob("first", "work", dedup_key="k")
        answers = await store.enqueue(batch)
        assert [answer.created for answer in answers] == [n != 6 for n in range(8)]
        assert answers[6].id == "first"
        assert (await store.stats()).lanes[0].ready == 7

    play(scenario)


@pytest.mark.parametrize("taken", [(), (2,), (0, 5, 6)], ids=str)
def test_pages_with_taken_ids_create_the_rest(play, short_pages, taken):
    async def scenario(store):
        given = [NewJob(one, "work") for one in new_ids(7, 0.0)]
        for number in taken:
            await store.enqueue([given[number]])
        answers = await store.enqueue(given)
        assert [answer.id for answer in answers] == [job.id for job in given]
        assert [n for n, answer in enumerate(answers) if not answer.created] == list(taken)
        assert all([await store.get(job.id) is not None for job in given])

    play(scenario)


def test_a_fault_in_the_last_page_leaves_nothing_behind(play, short_pages):
    async def scenario(store):
        with pytest.raises((ValueError, StoreError)):
            await store.enqueue([*jobs(7), NewJob("odd", "work", arguments="\x00")])
        assert (await store.list_jobs()).jobs == ()

    play(scenario)


def test_many_pages_join_one_transaction(bench, short_pages):
    async def scenario():
        async with bench.stores(1) as (store,):
            connection = await asyncpg.connect(bench.url)
            transaction = connection.transaction()
            await transaction.start()
            assert len(await store.enqueue_on(connection, jobs(8))) == 8
            await transaction.rollback()
            assert (await store.list_jobs()).jobs == ()
            async with connection.transaction():
                await store.enqueue_on(connection, jobs(8))
            assert len((await store.list_jobs()).jobs) == 8
            await connection.close()

    asyncio.run(scenario())
