"""Folding the counters: a failure is counted, logged and made up for."""

import asyncio
import logging

from tests.store.postgres.conftest import jobs

from holdfast.store.postgres.counters import FAILED_FOLDS

BREAK = """
CREATE FUNCTION no_folding() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN RAISE EXCEPTION ''deltas stay''; END';
CREATE TRIGGER no_folding BEFORE DELETE ON holdfast.counter_deltas
EXECUTE FUNCTION no_folding();
"""
MEND = "DROP TRIGGER no_folding ON holdfast.counter_deltas"


def lines(caplog):
    return [record.message for record in caplog.records if record.name == "holdfast.store"]


def test_a_fold_that_fails_is_counted_and_logged_once(bench, caplog):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(3))
            await bench.execute(BREAK)
            with caplog.at_level(logging.WARNING):
                for _ in range(3):
                    await store.rescue()
            (line,) = lines(caplog)
            assert "deltas stay" in line
            assert (await store.stats()).totals[FAILED_FOLDS] == 3
            await bench.execute(MEND)
            await store.rescue()
            assert (await bench.execute("SELECT count(*) FROM holdfast.counter_deltas")) == [(0,)]
            stats = await store.stats()
            assert stats.lanes[0].ready == 3
            assert stats.totals[FAILED_FOLDS] == 3

    asyncio.run(scenario())


def test_failed_folds_of_an_outage_are_counted_when_it_ends(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue(jobs(1))
            await bench.execute(BREAK)
            await bench.execute("ALTER FUNCTION holdfast.count_total RENAME TO count_never")
            await store.rescue()
            await store.rescue()
            await bench.execute("ALTER FUNCTION holdfast.count_never RENAME TO count_total")
            await bench.execute(MEND)
            await store.rescue()
            assert (await store.stats()).totals[FAILED_FOLDS] == 2

    asyncio.run(scenario())
