"""The checks of a store's tables find each kind of damage, and nothing in a sound store."""

import asyncio

import asyncpg
import pytest
from campaigns.invariants import violated
from tests.support.postgres import postgres_server, postgres_template, postgres_url  # noqa: F401

from holdfast.jobs.model import Completed, Failed, Finished, JobError, NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.postgres.store import PostgresStore

DAMAGE = {
    "jobs without their lane": "UPDATE holdfast.jobs SET lane = 77 WHERE id = 'done'",
    "jobs without their id": "DELETE FROM holdfast.ids WHERE id = 'done'",
    "ids without their job": "DELETE FROM holdfast.jobs WHERE id = 'done'",
    "jobs without their last event": "UPDATE holdfast.jobs SET last_event = 7 WHERE id = 'failed'",
    "completed jobs that retention would not find": "DELETE FROM holdfast.completed",
    "failed jobs that are no dead letters": "UPDATE holdfast.jobs SET dead_letter = NULL",
    "requests to cancel": "INSERT INTO holdfast.cancel_requests VALUES ('w', 1)",
    "events beyond their sequence": "SELECT setval('holdfast.event_sequence', 10000)",
    "the counter of": "UPDATE holdfast.counters SET count = count + 1 WHERE family = 'lane'",
    "dead letters are counted": """
        INSERT INTO holdfast.counter_deltas (delta, family, a) VALUES (1, 'dead', 'work')""",
}


async def found(url, damage="SELECT 1"):
    """Finish two jobs, run `damage`, and return what is found then."""
    async with PostgresStore(url) as store:
        for job in ("done", "failed", "other"):
            await store.enqueue([NewJob(job, "work", max_attempts=1)])
        claim = ClaimRequest(10, ("default",), {"work": None})
        leases = [each.lease for each in (await store.tick("w", claim=claim)).claims]
        broken = Failed(JobError("UNKNOWN", "no"), "permanent")
        outcomes = (Completed("1"), broken, Completed("1"))
        await store.tick("w", [Finished(*each) for each in zip(leases, outcomes, strict=True)])
        await store.rescue()
        connection = await asyncpg.connect(url)
        await connection.execute(damage)
        await connection.close()
        return await violated(store, url)


def test_a_sound_store_violates_nothing(postgres_url):  # noqa: F811 - the fixture
    assert asyncio.run(found(postgres_url)) == []


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(postgres_url, what):  # noqa: F811 - the fixture
    findings = asyncio.run(found(postgres_url, DAMAGE[what]))
    assert any(what in finding for finding in findings), findings


@pytest.mark.parametrize(
    "what, statement",
    [("open transactions", "SELECT 1"), ("session locks", "SELECT pg_advisory_lock(1)")],
)
def test_forgotten_sessions_are_found(postgres_url, what, statement):  # noqa: F811 - the fixture
    async def scenario():
        forgotten = await asyncpg.connect(postgres_url)
        await forgotten.execute("BEGIN")
        await forgotten.execute(statement)
        try:
            return await found(postgres_url)
        finally:
            await forgotten.close()

    assert any(what in finding for finding in asyncio.run(scenario()))
