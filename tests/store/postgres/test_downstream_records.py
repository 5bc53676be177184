"""Records of downstreams: deleting unused ones beside enqueuers and workers, and its cost."""

import asyncio
import json

import asyncpg
from tests.store.postgres.conftest import ANY, BROKEN, a_session_waits

from holdfast.jobs.downstreams.record import (
    USE_NOTED_EVERY,
    CallReport,
    DownstreamSettings,
    Verdict,
)
from holdfast.jobs.model import Completed, Failed, Finished, NewJob, Retry
from holdfast.resilience.policy import BreakerPolicy, RateLimit

BREAKER = BreakerPolicy(consecutive_failures=1)
DAYS = 3 * 86_400.0
DELETING = "SELECT holdfast.delete_unused_downstreams('host', 60.0, 10, $1)"


def host(number, **settings):
    return DownstreamSettings(
        f"host:{number}", **{"breaker": BREAKER, "parent": "host", **settings}
    )


def reported(claim, outcome, verdict):
    report = None if claim.permit is None else CallReport(claim.downstream, claim.permit, verdict)
    return Finished(claim.lease, outcome, report=report)


def test_a_job_that_is_created_while_its_record_is_deleted_is_run(bench):
    """Its claim waits for the deletion. It runs without a permit, or with a new record."""

    async def scenario():
        connection, watcher = await asyncpg.connect(bench.url), await asyncpg.connect(bench.url)
        async with bench.stores(1) as (store,):
            await store.declare_downstreams([host(1, concurrency=1)], now=0.0)
            deletion = connection.transaction()
            await deletion.start()
            assert await connection.fetchval(DELETING, DAYS) == 1

            await store.enqueue([NewJob("a", "work", downstream="host:1")], now=DAYS)
            claiming = asyncio.create_task(store.tick("w", claim=ANY, now=DAYS))
            await a_session_waits(watcher)
            await deletion.commit()
            assert (await claiming).claims == ()  # the limit that it had to check is gone
            (claim,) = (await store.tick("w", claim=ANY, now=DAYS)).claims
            assert claim.permit is None
            await store.tick("w", [reported(claim, Retry(0, BROKEN), Verdict.FAILURE)], now=DAYS)

            await store.declare_downstreams([host(1, concurrency=1)], now=DAYS)
            (claim,) = (await store.tick("w", claim=ANY, now=DAYS + 1)).claims
            assert claim.permit is not None
            await store.tick("w", [reported(claim, Completed(), Verdict.SUCCESS)], now=DAYS + 1)
            assert (await store.get("a")).status == "complete"
        await connection.close()
        await watcher.close()

    asyncio.run(scenario())


def test_a_job_that_was_claimed_before_its_record_was_deleted_is_reported(bench):
    """Its verdict counts for no record, and the job itself is not lost."""

    async def scenario():
        connection = await asyncpg.connect(bench.url)
        async with bench.stores(1) as (store,):
            await store.declare_downstreams([host(1)], now=0.0)
            deletion = connection.transaction()
            await deletion.start()
            assert await connection.fetchval(DELETING, DAYS) == 1
            await store.enqueue([NewJob("a", "work", downstream="host:1")], now=DAYS)
            (claim,) = (await store.tick("w", claim=ANY, now=DAYS)).claims
            assert claim.permit is not None
            await deletion.commit()
            result = await store.tick(
                "w", [reported(claim, Retry(0, BROKEN), Verdict.FAILURE)], ANY, now=DAYS + 1
            )
            assert result.refused == ()
            (again,) = result.claims
            assert (again.job_id, again.permit) == ("a", None)
        await connection.close()

    asyncio.run(scenario())


def test_a_declaration_waits_for_the_deletion_and_creates_the_record_anew(bench):
    async def scenario():
        connection, watcher = await asyncpg.connect(bench.url), await asyncpg.connect(bench.url)
        async with bench.stores(1) as (store,):
            await store.declare_downstreams([host(1)], now=0.0)
            deletion = connection.transaction()
            await deletion.start()
            assert await connection.fetchval(DELETING, DAYS) == 1
            declaring = asyncio.create_task(store.declare_downstreams([host(1)], now=DAYS))
            await a_session_waits(watcher)
            await deletion.commit()
            await declaring
            assert (await store.downstream("host:1")).used_at == DAYS
        await connection.close()
        await watcher.close()

    asyncio.run(scenario())


def test_what_a_store_knew_of_a_deleted_record_is_not_taken_for_the_new_one(bench):
    """A store judges reports by the record that it last saw, if its version is the stored one."""
    patient = host(1, breaker=BreakerPolicy(consecutive_failures=3))

    async def run(store, job_id, verdict, now):
        await store.enqueue([NewJob(job_id, "work", downstream="host:1")], now=now)
        (claim,) = (await store.tick("w", claim=ANY, now=now)).claims
        failed = verdict is Verdict.FAILURE
        outcome = Failed(BROKEN) if failed else Completed()
        await store.tick("w", [reported(claim, outcome, verdict)], now=now)
        return (await store.downstream("host:1")).circuit.streak

    async def scenario():
        async with bench.stores(2) as (first, second):
            await first.declare_downstreams([patient], now=0.0)
            before = [Verdict.FAILURE, Verdict.SUCCESS, Verdict.SUCCESS]
            for number, verdict in enumerate(before):
                await run(first, f"before-{number}", verdict, 1.0)
            await first.delete([f"before-{number}" for number in range(len(before))])
            await first.rescue()
            assert await second.delete_unused_downstreams("host", now=DAYS) == 1
            await second.declare_downstreams([patient], now=DAYS)
            # As many writes as `first` has seen of the deleted record.
            assert await run(second, "one", Verdict.FAILURE, DAYS) == 1
            assert await run(second, "two", Verdict.FAILURE, DAYS) == 2
            assert await run(first, "three", Verdict.SUCCESS, DAYS) == 0

    asyncio.run(scenario())


def test_uses_are_noted_as_often_by_the_functions_as_by_the_rest(bench):
    async def scenario():
        assert await bench.execute("SELECT holdfast.use_noted_every()") == [(USE_NOTED_EVERY,)]

    asyncio.run(scenario())


def test_the_starts_that_a_rate_has_counted_go_with_the_record(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.declare_downstreams([host(1, rate=RateLimit(per_day=5))], now=0.0)
            await store.enqueue([NewJob("a", "work", downstream="host:1")], now=0.0)
            (claim,) = (await store.tick("w", claim=ANY, now=0.0)).claims
            await store.tick("w", [reported(claim, Completed(), Verdict.SUCCESS)], now=1.0)
            spent = "SELECT count(*) FROM holdfast.rate_spent"
            assert await bench.execute(spent) == [(1,)]
            await store.delete(["a"])
            await store.rescue()
            assert await store.delete_unused_downstreams("host", now=DAYS) == 1
            assert await bench.execute(spent) == [(0,)]

    asyncio.run(scenario())


def test_looking_for_unused_records_reads_no_others(bench):
    """Not those that are used, nor those that another downstream's key or no key has made."""

    async def scenario():
        connection = await asyncpg.connect(bench.url)
        try:
            await connection.execute(
                """
                INSERT INTO holdfast.downstreams (
                    name, version, generation, holds, needs_check, state, settings, record,
                    parent, used_at
                )
                SELECT 'host:' || kind || n, 0, 0, false, false, 'CLOSED', '{}', '{}', parent,
                    used_at
                FROM (VALUES ('a', 'other', 0), ('b', 'host', 1e9), ('c', NULL, 0))
                        AS kinds (kind, parent, used_at),
                    generate_series(1, 20000) AS n
                """
            )
            # The second call finds its plans, and what they read of the catalogue.
            for _ in range(2):
                text = await connection.fetchval(
                    f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {DELETING}", DAYS
                )
            plan = json.loads(text)[0]["Plan"]
            assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20
        finally:
            await connection.close()

    asyncio.run(scenario())
