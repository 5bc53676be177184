"""Records of downstreams: what is deleted with an unused one, and records of the release before."""

import asyncio

import apsw

from holdfast.jobs.downstreams.record import UNUSED_FOR, DownstreamSettings
from holdfast.jobs.model import Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.policy import RateLimit
from holdfast.store.sqlite.store import SQLiteStore

ANY = ClaimRequest(10, ("default",), {"work": None})


def rows(path, sql):
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_the_starts_that_a_rate_has_counted_go_with_the_record(tmp_path):
    path = tmp_path / "work.db"

    async def scenario():
        async with SQLiteStore(path) as store:
            settings = DownstreamSettings("host:1", rate=RateLimit(per_day=5), parent="host")
            await store.declare_downstreams([settings], now=0.0)
            await store.enqueue([NewJob("a", "work", downstream="host:1")], now=0.0)
            (claim,) = (await store.tick("w", claim=ANY, now=0.0)).claims
            await store.tick("w", [Finished(claim.lease, Completed())], now=1.0)
            spent = "SELECT count(*) FROM holdfast_rate_spent"
            assert rows(path, spent) == [(1,)]
            await store.delete(["a"])
            assert await store.delete_unused_downstreams("host", now=2 * UNUSED_FOR) == 1
            assert rows(path, spent) == [(0,)]

    asyncio.run(scenario())


def test_a_record_of_the_release_before_is_never_deleted(tmp_path):
    """It does not say whether a key made it."""
    path = tmp_path / "work.db"
    hosts = [DownstreamSettings(f"host:{number}", parent="host") for number in (1, 2)]

    async def scenario():
        async with SQLiteStore(path) as store:
            await store.declare_downstreams(hosts, now=0.0)
            older = "UPDATE holdfast_downstreams SET parent = NULL, used_at = NULL"
            rows(path, f"{older} WHERE name = 'host:1'")
            await store.declare_downstreams(hosts, now=1.0)
            assert await store.delete_unused_downstreams("host", now=2 * UNUSED_FOR) == 1
            assert [record.name for record in await store.downstreams()] == ["host:1"]

    asyncio.run(scenario())
