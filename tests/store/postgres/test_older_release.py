"""A worker of the release before this one works with this schema, until it is replaced too.

`older_release` holds the statements of that release: those of its `sql` folder. They are replaced
when a release is made.
"""

import asyncio
from itertools import repeat

import asyncpg
import pytest

from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.model import JobStatus
from holdfast.store.joining import numbered
from holdfast.store.postgres.columns import TIMEOUT_COLUMNS
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sql_files import load_queries

STATEMENTS = load_queries("tests.store.postgres", "older_release")


class OlderRelease:
    """A connection of the older release."""

    def __init__(self, connection):
        self.connection = connection

    async def prepare(self, name):
        """Prepare one of its statements."""
        try:
            await self.connection.prepare(numbered(STATEMENTS[name])[0])
        except asyncpg.PostgresError as error:
            raise AssertionError(f"{name}: {error}") from error

    async def run(self, name, **values):
        """Run one of its statements; parameters that are not given are NULL."""
        sql, names = numbered(STATEMENTS[name])
        return await self.connection.fetch(sql, *(values.get(each) for each in names))

    async def enqueue(self, ids, downstream):
        lane = {"queues": ["default"], "downstreams": [downstream], "kinds": ["work"]}
        await self.run("lanes_create", **lane)
        ((number, *_),) = await self.run("lanes_find", **lane)
        created = await self.run(
            "enqueue",
            ids=ids, lanes=[number], kinds=["work"], statuses=["queued"], arguments=["null"],
            priorities=[0], max_attempts=[3], all_new=True, notify=False,
        )  # fmt: skip
        assert created == []

    async def tick(self, **values):
        """Return the lines of the answer by what they are."""
        given = {
            "names": [], "versions": [], "worker": "older", "timeout": TIMEOUT_COLUMNS, "after": 0,
            "seqs": [], "queues": [], "kinds": [], "limited": [],
        }  # fmt: skip
        return {line["what"]: line for line in await self.run("tick", **{**given, **values})}

    async def claim(self, limit):
        request = {"queues": ["default"], "kinds": ["work"], "limit": limit, "lease": 60.0}
        return await self.tick(**request)

    async def complete(self, line):
        """Report the jobs of `line` as complete."""
        number = len(line["seqs"])
        answer = await self.tick(
            seqs=line["seqs"], ids=line["ids"], tokens=line["tokens"], workers=["older"],
            outcomes=["complete"] * number, afters=list(repeat(None, number)),
            durations=[0.1] * number,
        )  # fmt: skip
        assert answer.keys() == {"now"}


@pytest.fixture
def with_older_release(postgres_url):
    """Return a function that plays a scenario with a connection of the older release."""

    def play(scenario):
        async def main():
            connection = await asyncpg.connect(postgres_url)
            try:
                return await scenario(OlderRelease(connection))
            finally:
                await connection.close()

        return asyncio.run(main())

    return play


def test_every_statement_of_the_older_release_can_be_prepared(with_older_release):
    async def scenario(older):
        for name in STATEMENTS:
            await older.prepare(name)

    with_older_release(scenario)


def test_the_older_release_enqueues_claims_and_completes(with_older_release):
    async def scenario(older):
        await older.enqueue(["a", "b", "c"], "")
        answer = await older.claim(2)
        assert answer["claims"]["ids"] == ["a", "b"]
        assert answer.keys() == {"now", "claims"}
        extended = await older.run("control_extend", ids=["a", "b"], tokens=[1, 1], lease=60.0)
        assert [tuple(row) for row in extended] == [("a", 1, False), ("b", 1, False)]
        await older.complete(answer["claims"])
        assert (await older.claim(2))["claims"]["ids"] == ["c"]

    with_older_release(scenario)


def test_the_older_release_claims_where_a_limit_must_be_checked(with_older_release, postgres_url):
    async def scenario(older):
        async with PostgresStore(postgres_url) as store:
            await store.declare_downstreams([DownstreamSettings("gateway", concurrency=2)])
            await older.enqueue(["a", "b", "c"], "gateway")
            assert (await older.claim(3)).keys() == {"now", "check"}
            at = await store.ping()
            (lane,) = await older.run("claim_lanes", queues=["default"], kinds=["work"], now=at)
            assert (lane["downstream"], lane["stance"]) == ("gateway", "check")
            (line,) = await older.run(
                "claim_take",
                worker="older", lanes=[lane["lane"]], quotas=[2], generations=[None], lease=60.0,
                now=at,
            )  # fmt: skip
            assert line["ids"] == ["a", "b"]
            await older.complete(line)
            assert (await store.get("b")).status is JobStatus.COMPLETE

    with_older_release(scenario)


def test_calls_without_tracebacks_and_kinds_are_still_answered(with_older_release, postgres_url):
    """Those of the schema before `0003_everyday`."""
    report_and_claim = """
        SELECT what, ids FROM holdfast.report_and_claim(
            '{}', '{}',
            ROW($1::bigint[], NULL, $2::bigint[], $3::text[], $4::text[], NULL, $5::text[],
                $6::text[], $6::text[], $7::text[], NULL, NULL, NULL)::holdfast.reports,
            'older',
            ROW('{default}', '{work}', '{}', $8::integer, 60, 0, NULL, NULL, NULL, NULL, NULL,
                NULL, NULL)::holdfast.claim_request,
            $9, NULL
        )
    """

    async def scenario(older):
        await older.enqueue(["a"], "")
        connection = older.connection
        registered = await connection.fetchval(
            "SELECT holdfast.register_worker('older', pg_backend_pid())"
        )
        assert registered is True
        nothing = [[], [], [], [], [], [], []]
        claimed = await connection.fetch(report_and_claim, *nothing, 1, TIMEOUT_COLUMNS)
        assert [row["ids"] for row in claimed if row["what"] == "claims"] == [["a"]]
        seq = await connection.fetchval("SELECT holdfast.job_of('a')")
        failed = [[seq], [1], ["older"], ["failed"], ["GW_5XX"], ["no"], ["permanent"]]
        await connection.fetch(report_and_claim, *failed, None, TIMEOUT_COLUMNS)
        async with PostgresStore(postgres_url) as store:
            (attempt,) = await store.attempts("a")
            assert (attempt.error.code, attempt.traceback) == ("GW_5XX", None)

    with_older_release(scenario)
