"""Lane ids that this process remembers may belong to other lanes, as after a failover."""

import asyncpg
import pytest
from tests.store.postgres.conftest import jobs

from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.postgres.lanes import Lanes

BOTH = ClaimRequest(1, ("default",), {"work": None, "other": None})
# As on a standby that lost the lane and its jobs, and gave the number to another one.
REUSE_ID = """
UPDATE holdfast.lanes SET kind = 'other', downstream = 'b' WHERE downstream = 'a';
UPDATE holdfast.jobs SET kind = 'other';
"""


@pytest.fixture(autouse=True)
def remembered_lanes(monkeypatch):
    """Let claims use the lanes that are remembered, without looking through all of them again."""
    monkeypatch.setattr("holdfast.store.postgres.claim_memory._SCAN_SHARE", 1e9)


async def reuse_the_id(bench, store, *, kinds):
    """Let the store claim from a lane, whose id is given to another one then."""
    await store.enqueue(jobs(5, downstream="a"))
    request = ClaimRequest(1, ("default",), kinds)
    (claim,) = (await store.tick("w", claim=request)).claims
    assert (claim.kind, claim.downstream) == ("work", "a")
    await bench.execute(REUSE_ID)


@pytest.mark.parametrize("limit", [None, 2], ids=["without a limit", "with a limit"])
def test_a_claim_names_the_lane_that_has_the_id_now(bench, play, limit):
    async def scenario(store):
        await store.declare_downstreams([DownstreamSettings("b", concurrency=limit)])
        await reuse_the_id(bench, store, kinds=BOTH.kinds)
        for claimed in (1, 0 if limit else 1):
            claims = (await store.tick("w", claim=BOTH)).claims
            assert [(each.kind, each.downstream) for each in claims] == [("other", "b")] * claimed

    play(scenario)


@pytest.mark.parametrize("limit", [None, 5], ids=["without a limit", "with a limit"])
def test_a_claim_takes_no_job_of_a_kind_that_was_not_asked_for(bench, play, limit):
    async def scenario(store):
        await reuse_the_id(bench, store, kinds={"work": limit})
        request = ClaimRequest(1, ("default",), {"work": limit})
        assert (await store.tick("w", claim=request)).claims == ()

    play(scenario)


def test_a_limit_holds_where_the_ids_of_one_downstream_belong_to_two(bench, play):
    """The lanes of two kinds are one family for this process, and those of two downstreams now."""

    async def scenario(store):
        await store.declare_downstreams([DownstreamSettings("b", concurrency=1)])
        await store.enqueue(jobs(5, downstream="a"))
        await store.enqueue(jobs(5, kind="other", prefix="other", downstream="a"))
        request = ClaimRequest(2, ("default",), {"work": 9, "other": 9})
        assert len((await store.tick("w", claim=request)).claims) == 2
        await bench.execute("UPDATE holdfast.lanes SET downstream = 'b' WHERE kind = 'other'")
        request = ClaimRequest(8, ("default",), request.kinds)
        claims = (await store.tick("w", claim=request)).claims
        assert sum(each.downstream == "b" for each in claims) <= 1

    play(scenario)


@pytest.mark.parametrize("column", ["queue", "downstream", "kind"])
def test_a_job_alone_lands_in_its_own_lane(bench, play, column):
    async def scenario(store):
        await store.enqueue(jobs(1))
        await bench.execute(f"UPDATE holdfast.lanes SET {column} = 'other'")
        await store.enqueue(jobs(1, prefix="next"))
        job = await store.get("next-00000")
        assert (job.queue, job.downstream, job.kind) == ("default", None, "work")
        assert len((await store.stats()).lanes) == 2

    play(scenario)


def test_the_number_of_remembered_lanes_is_bounded(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.lanes._MOST", 20)

    async def scenario(store):
        for number in range(5):
            names = [f"host:{number}-{n}" for n in range(8)]
            for name in names:
                await store.enqueue(jobs(2, prefix=name, downstream=name))
            await store.enqueue(
                [job for name in names for job in jobs(2, prefix=f"{name}-more", downstream=name)]
            )
            assert len(store._lanes.known) <= 20
            assert len(store._lanes.known_ids) <= 20
        request = ClaimRequest(1000, ("default",), {"work": None})
        claims = (await store.tick("w", claim=request)).claims
        assert all(each.job_id.startswith(each.downstream) for each in claims)
        assert len(claims) == 5 * 8 * 4

    play(scenario)


def test_a_bulk_with_more_lanes_than_are_remembered_is_enqueued(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.lanes._MOST", 20)

    async def scenario(store):
        many = [job for n in range(50) for job in jobs(1, prefix=f"{n}", downstream=f"host:{n}")]
        for _ in range(2):
            assert len(await store.enqueue(many)) == 50
        assert len((await store.stats()).lanes) == 50

    play(scenario)


@pytest.mark.parametrize("folded_before", [False, True])
def test_a_lane_whose_first_jobs_are_rolled_back_is_deleted(bench, play, folded_before):
    async def scenario(store):
        await store.enqueue(jobs(1))
        connection = await asyncpg.connect(bench.url)
        transaction = connection.transaction()
        await transaction.start()
        await store.enqueue_on(connection, jobs(1, prefix="other", downstream="rolled back"))
        if folded_before:
            await store.rescue()
        await transaction.rollback()
        await connection.close()
        await store.rescue()
        assert await bench.execute("SELECT downstream FROM holdfast.lanes") == [("",)]
        assert [lane.downstream for lane in (await store.stats()).lanes] == [None]

    play(scenario)


class DeletingDatabase:
    """A database in which a fold deletes a new lane before it is read, the first time."""

    def __init__(self, database, bench):
        self._database = database
        self._bench = bench
        self.deletions = 0

    async def rows(self, name, **values):
        return await self._database.rows(name, **values)

    async def write(self, name, **values):
        await self._database.write(name, **values)
        if not self.deletions:
            await self._bench.execute("DELETE FROM holdfast.lanes")
            self.deletions += 1


def test_a_new_lane_that_is_deleted_before_it_is_read_is_created_again(bench, play):
    async def scenario(store):
        database = DeletingDatabase(store._database, bench)
        lane = ("default", "", "work")
        assert set(await Lanes(database).ids([lane])) == {lane}
        assert database.deletions == 1

    play(scenario)
