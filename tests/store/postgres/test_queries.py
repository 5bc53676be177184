"""Reading during writes: streams without gaps, counters without scans, pages by index."""

import asyncio
import json
import random
from dataclasses import replace

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, BROKEN, a_session_waits, jobs

from holdfast.jobs.model import Completed, Failed, Finished, JobStatus, NewJob
from holdfast.jobs.views import JobFilter
from holdfast.store.joining import numbered
from holdfast.store.postgres.connection import SQL
from holdfast.store.postgres.queries import list_query
from holdfast.store.postgres.session import SETTINGS
from holdfast.store.row_mapping import filter_parameters


def test_an_event_waits_for_those_of_transactions_begun_before_it(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue([NewJob("slow", "work")])
            start = await store.last_sequence()
            slow = await asyncpg.connect(bench.url)
            transaction = slow.transaction()
            await transaction.start()
            await slow.execute("SELECT holdfast.cancel('slow', NULL)")
            await store.enqueue([NewJob("quick", "work")])
            assert await store.changes_since(start) == ()
            assert await store.last_sequence() == start
            assert (await store.get("quick")) is not None
            await transaction.commit()
            ids = [event.job_id for event in await store.changes_since(start)]
            assert ids == ["slow", "quick"]
            await slow.close()

    asyncio.run(scenario())


def test_a_stream_begun_during_a_tick_shows_its_events(bench):
    """A sequence number taken before it is announced would never appear in such a stream."""

    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(2))
            claims = (await store.tick("w", claim=replace(ANY, limit=1))).claims
            other = await asyncpg.connect(bench.url)
            async with other.transaction():
                await other.execute(
                    "SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE", claims[0].job_id
                )
                finished = [Finished(claim.lease, Completed()) for claim in claims]
                ticking = asyncio.create_task(store.tick("w", finished, ANY))
                await a_session_waits(other)
                start = await store.last_sequence()
            await ticking
            await other.close()
            names = [event.name for event in await store.changes_since(start)]
            assert names == ["complete", "processing"]

    asyncio.run(scenario())


def test_a_transaction_rolled_back_leaves_nothing_to_wait_for(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            start = await store.last_sequence()
            other = await asyncpg.connect(bench.url)
            transaction = other.transaction()
            await transaction.start()
            await store.enqueue_on(other, [NewJob("never", "work")])
            await store.enqueue([NewJob("quick", "work")])
            await transaction.rollback()
            (event,) = await store.changes_since(start)
            assert event.job_id == "quick"
            await other.close()

    asyncio.run(scenario())


def test_a_walk_beside_many_writers_misses_nothing(bench):
    """Every event once, in order, for any order of commits."""

    async def scenario():
        async with bench.stores(5, connections=4) as (reader, *writers):
            done = False

            async def write(store, name):
                rng = random.Random(name)
                for n in range(40):
                    await store.enqueue(jobs(rng.randint(1, 4), prefix=f"{name}-{n}"))
                    await bench.drain(store, name) if n % 7 == 0 else None

            async def walk():
                seen, last = [], 0
                while True:
                    finishing = done
                    events = await reader.changes_since(last, limit=50)
                    seen += [event.sequence for event in events]
                    last = seen[-1] if seen else 0
                    if finishing and not events:
                        return seen

            walking = asyncio.create_task(walk())
            await asyncio.gather(*(write(store, f"w{n}") for n, store in enumerate(writers)))
            for n, store in enumerate(writers):
                await bench.drain(store, f"w{n}")
            done = True
            seen = await walking
            assert seen == sorted(set(seen))
            connection = await asyncpg.connect(bench.url)
            stored = await connection.fetch("SELECT sequence FROM holdfast.events ORDER BY 1")
            await connection.close()
            assert seen == [row[0] for row in stored]
            assert len(seen) > 1000

    asyncio.run(scenario())


def test_what_one_statement_moved_alike_is_one_page(bench):
    """For any number of jobs; and a stream may stop and continue inside it."""

    async def scenario():
        async with bench.stores(1) as (store,):
            start = await store.last_sequence()
            await store.enqueue(jobs(10))
            claims = (await store.tick("w", claim=ANY)).claims
            finished = [Finished(claim.lease, Completed(), 0.5) for claim in claims]
            await store.tick("w", finished)
            connection = await asyncpg.connect(bench.url)
            pages = await connection.fetch("SELECT name, cardinality(jobs) FROM holdfast.history")
            await connection.close()
            assert [tuple(page) for page in pages] == [
                ("queued", 10),
                ("processing", 10),
                ("complete", 10),
            ]
            changes = await store.changes_since(start)
            assert [(event.name, event.attempt, event.duration_ms) for event in changes] == [
                *[("queued", 0, None)] * 10,
                *[("processing", 1, None)] * 10,
                *[("complete", 1, 500.0)] * 10,
            ]
            for begin, end in ((0, 3), (3, 12), (12, 29)):
                since = start if begin == 0 else changes[begin - 1].sequence
                assert await store.changes_since(since, limit=end - begin) == changes[begin:end]
            assert await store.last_sequence() == changes[-1].sequence

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE holdfast.history SET name = 'failed'",
        "UPDATE holdfast.history SET jobs = '{}'",
        "INSERT INTO holdfast.history (sequence, at, name, jobs) VALUES (1, 0, 'queued', '{}')",
        "INSERT INTO holdfast.history (sequence, at, name, jobs) "
        "VALUES (1, 0, 'queued', array_fill(1::bigint, ARRAY[10001]))",
        "INSERT INTO holdfast.history (sequence, at, name, outcome, jobs) "
        "VALUES (1, 0, 'complete', 'complete', '{1}')",
    ],
)
def test_history_can_neither_be_rewritten_nor_be_incomplete(bench, change):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(1))
            connection = await asyncpg.connect(bench.url)
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute(change)
            await connection.close()
            assert len(await store.events("job-00000")) == 1

    asyncio.run(scenario())


def test_counters_are_the_same_before_and_after_they_are_folded(bench):
    async def scenario():
        async with bench.stores(2) as (one, two):
            await one.enqueue(jobs(30))
            claims = (await two.tick("w", claim=ANY)).claims
            finished = [Finished(claim.lease, Completed()) for claim in claims[:5]]
            finished += [Finished(claim.lease, Failed(BROKEN)) for claim in claims[5:8]]
            await two.tick("w", finished)
            before = await one.stats()
            (lane,) = before.lanes
            assert (lane.ready, lane.processing, lane.complete, lane.failed) == (20, 2, 5, 3)
            await one.rescue()  # maintenance folds
            connection = await asyncpg.connect(bench.url)
            assert await connection.fetchval("SELECT count(*) FROM holdfast.counter_deltas") == 0
            await connection.close()
            assert await two.stats() == before
            assert before.dead_letters == 3

    asyncio.run(scenario())


def test_counters_stay_right_while_several_fold_at_once(bench):
    async def scenario():
        async with bench.stores(4, connections=4) as stores:

            async def work(store, name):
                for n in range(20):
                    await store.enqueue(jobs(3, prefix=f"{name}-{n}"))
                    await store.rescue()
                await bench.drain(store, name)

            await asyncio.gather(*(work(store, f"w{n}") for n, store in enumerate(stores)))
            (lane,) = (await stores[0].stats()).lanes
            assert (lane.ready, lane.processing, lane.complete) == (0, 0, 240)

    asyncio.run(scenario())


def test_writers_fold_the_counters_now_and_then(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            for n in range(130):
                await store.enqueue([NewJob(f"job-{n}", "work")])
            connection = await asyncpg.connect(bench.url)
            left = await connection.fetchval("SELECT count(*) FROM holdfast.counter_deltas")
            await connection.close()
            assert left < 64
            assert (await store.stats()).lanes[0].ready == 130

    asyncio.run(scenario())


WAYS = {
    JobFilter(): "jobs_pkey",
    JobFilter(owner="ann"): "ids_owned",
    JobFilter(id="a"): "jobs_pkey",
    JobFilter(statuses=(JobStatus.FAILED,)): "jobs_unsuccessful",
    JobFilter(error_text="x"): "jobs_unsuccessful",
    JobFilter(statuses=(JobStatus.QUEUED,)): "jobs_waiting",
    JobFilter(statuses=(JobStatus.QUEUED, JobStatus.PROCESSING)): "jobs_waiting",
}


def indexes(plan):
    """Name every index that a plan uses."""
    found = {plan["Index Name"]} if "Index Name" in plan else set()
    return found.union(*map(indexes, plan.get("Plans", [])))


def scans(plan):
    """Name every table that a plan reads from end to end."""
    found = {plan["Relation Name"]} if plan["Node Type"] == "Seq Scan" else set()
    return found.union(*map(scans, plan.get("Plans", [])))


async def explain(url, query, **parameters):
    text, names = numbered(SQL[query])
    connection = await asyncpg.connect(url, server_settings=SETTINGS)
    try:
        plan = await connection.fetchval(
            f"EXPLAIN (FORMAT JSON) {text}", *[parameters[name] for name in names]
        )
    finally:
        await connection.close()
    return json.loads(plan)[0]["Plan"]


@pytest.mark.parametrize("where, index", WAYS.items(), ids=lambda value: str(value)[:60])
def test_every_list_is_read_by_an_index(postgres_url, where, index):
    parameters = {**filter_parameters(where, list), "before": 10, "limit": 5, "now": 1.0}
    plan = asyncio.run(explain(postgres_url, list_query(where), **parameters))
    assert index in indexes(plan)
    assert scans(plan) == set()


@pytest.mark.parametrize("where, index", WAYS.items(), ids=lambda value: str(value)[:60])
def test_a_search_finds_its_end_by_an_index(postgres_url, where, index):
    if where.id is not None:
        return  # one job needs no end
    parameters = {"before": 10, "window": 100, "owner": where.owner}
    plan = asyncio.run(explain(postgres_url, f"floor_{list_query(where)}", **parameters))
    assert index in indexes(plan)
    assert scans(plan) == set()


def test_the_dead_letters_of_a_group_are_read_by_an_index(postgres_url):
    where = JobFilter(kinds=("a",), error_code="B", error_group="c")
    start = {"before_at": 1e300, "before": 10, "limit": 5, "now": 1.0}
    parameters = {**filter_parameters(where, list), **start, "kind": "a"}
    plan = asyncio.run(explain(postgres_url, "read_dead_letters_of_group", **parameters))
    assert "jobs_dead_alike" in indexes(plan)
    assert scans(plan) == set()


@pytest.mark.parametrize(
    "query, parameters, index",
    [
        ("claim_running", {"downstreams": ["a"]}, "jobs_running"),
        ("claim_running_kinds", {"kinds": ["a"]}, "jobs_running"),
        ("claim_trial_leases", {"downstreams": ["a"], "generations": [1]}, "jobs_running"),
        ("owner_running", {"owner": "a"}, "jobs_running"),
        ("owner_unfinished", {"owner": "a", "most": 5}, "jobs_unfinished_of_owner"),
        ("read_job", {"id": "a", "now": 1.0}, "jobs_pkey"),
        ("read_events", {"id": "a"}, "history_pkey"),
        ("read_attempts", {"id": "a"}, "history_pkey"),
        ("read_oldest_ready", {}, "jobs_ready_by_owner"),
        ("read_finished_jobs", {"events": 5000, "limit": 1000}, "history_pkey"),
        ("read_worker_loads", {"events": 5000, "since": 1.0}, "history_pkey"),
        ("audit_list", {"before": 10, "limit": 5}, "audit_pkey"),
        ("lanes_find", {"queues": ["a"], "downstreams": [""], "kinds": ["b"]}, "lanes_are_unique"),
    ],
)
def test_frequent_queries_use_an_index(postgres_url, query, parameters, index):
    plan = asyncio.run(explain(postgres_url, query, **parameters))
    assert index in indexes(plan)
    assert scans(plan) == set()


def test_the_messages_of_aggregates_are_found_by_an_index(postgres_url):
    plan = asyncio.run(explain(postgres_url, "outbox_erase", aggregates=["order-7"]))
    assert "outbox_of_aggregate" in indexes(plan)
    assert scans(plan) == set()
