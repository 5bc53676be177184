"""Roles with only the rights that the documentation gives them."""

import asyncio
import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from holdfast import App, Downstream, Engine, ErrorCode, JobContext, Permanent
from holdfast.jobs.model import Finished, JobError, JobStatus, NewJob, Retry
from holdfast.jobs.store_port import ClaimRequest, StoreUnusable
from holdfast.store.postgres.counters import FAILED_FOLDS
from holdfast.store.postgres.store import PostgresStore

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-on-postgresql.md"
ROLES, GRANTS, ADVANCE = re.findall(
    r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
)

app = App("rights")


@app.job(downstream=Downstream("gateway"))
async def convert(ctx: JobContext, fails: bool) -> str:
    ctx.progress(0.5)
    if fails:
        raise Permanent(ErrorCode.GW_4XX, "as asked")
    return "done"


class Roles:
    """The three roles of the page, under names that are free on this server."""

    def __init__(self, url):
        self._url = url
        self._suffix = secrets.token_hex(4)

    def name(self, role):
        return f"holdfast_{role}_{self._suffix}"

    def url(self, role):
        number = {"owner": 1, "worker": 2, "enqueuer": 3}[role]
        parts = urlsplit(self._url)
        account = f"{self.name(role)}:change-me-{number}"
        return urlunsplit(parts._replace(netloc=f"{account}@{parts.netloc.rpartition('@')[2]}"))

    def run(self, sql, url=None):
        text = re.sub(r"holdfast_(owner|worker|enqueuer)", rf"holdfast_\1_{self._suffix}", sql)

        async def execute():
            connection = await asyncpg.connect(url or self._url)
            try:
                await connection.execute(text)
            finally:
                await connection.close()

        asyncio.run(execute())


@pytest.fixture
def roles(postgres_server):
    name = postgres_server.create_database()
    roles = Roles(postgres_server.url(name))
    roles.run(ROLES)
    asyncio.run(PostgresStore(roles.url("owner")).migrate())
    roles.run(GRANTS, roles.url("owner"))
    yield roles
    postgres_server.drop_database(name)
    for role in ("owner", "worker", "enqueuer"):
        postgres_server.execute(f"DROP ROLE {roles.name(role)}")


def test_migrating_needs_no_right_but_the_schema(roles):
    async def scenario():
        store = PostgresStore(roles.url("owner"))
        assert await store.migrate() == ()
        assert not await store.missing()

    asyncio.run(scenario())
    roles.run(ADVANCE, roles.url("owner"))


def test_enqueuers_enqueue_and_read_and_workers_do_all_the_rest(roles):
    async def scenario():
        async with (
            Engine(roles.url("enqueuer"), apps=[app]) as sender,
            Engine(roles.url("worker"), apps=[app]) as engine,
        ):
            done = await sender.enqueue(convert, False, dedup_key="a")
            twin = await sender.enqueue(convert, False, dedup_key="a")
            assert (twin.id, twin.created) == (done.id, False)
            failed = await sender.enqueue(convert, True)
            later = await sender.enqueue(convert, False, dedup_key="b")
            once = await sender.enqueue(convert, False, dedup_key="c", dedup="unfinished")
            await engine.cancel(later.id)
            await engine.work(until_idle=True)
            assert await sender.result(done) == "done"
            assert await sender.result(once) == "done"
            again = await sender.enqueue(convert, False, dedup_key="c", dedup="unfinished")
            assert again.created
            assert (await sender.get(failed.id)).status is JobStatus.FAILED
            await engine.retry(failed.id)
            await engine.work(until_idle=True)
            assert (await sender.get(failed.id)).manual_retry_count == 1

    asyncio.run(scenario())


def test_enqueuers_fold_the_counters_and_resolve_races_for_a_key(roles):
    async def scenario():
        async with PostgresStore(roles.url("enqueuer")) as store:
            await asyncio.gather(
                *(store.enqueue([NewJob(f"{n}", "work", dedup_key=f"{n % 9}")]) for n in range(99))
            )
            stats = await store.stats()
            assert stats.lanes[0].ready == 9
            assert FAILED_FOLDS not in stats.totals

    asyncio.run(scenario())


def test_enqueuers_join_transactions_of_their_own(roles):
    async def scenario():
        async with PostgresStore(roles.url("enqueuer")) as store:
            connection = await asyncpg.connect(roles.url("enqueuer"))
            async with connection.transaction():
                await store.enqueue_on(connection, [NewJob("a", "work", dedup_key="k")])
            await connection.close()
            assert (await store.get("a")).status is JobStatus.QUEUED

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "statement", ["UPDATE holdfast.jobs SET owner = 'x'", "DELETE FROM holdfast.jobs"]
)
def test_enqueuers_change_and_delete_no_job(roles, statement):
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        roles.run(statement, roles.url("enqueuer"))


@pytest.mark.parametrize("role", ["worker", "enqueuer"])
def test_only_the_owner_changes_the_schema(roles, role):
    for statement in (
        "DELETE FROM holdfast.migrations",
        "ALTER TABLE holdfast.jobs ADD COLUMN colour text",
        "CREATE TABLE holdfast.more (n int)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            roles.run(statement, roles.url(role))


def test_workers_go_on_between_a_migration_that_adds_a_table_and_its_grants(roles):
    roles.run(
        "REVOKE ALL ON holdfast.kinds_without_dead_letters FROM holdfast_worker",
        roles.url("owner"),
    )
    jobs = [NewJob("retried", "work"), NewJob("lost", "work", max_attempts=1)]
    request = ClaimRequest(limit=2, queues=("default",), kinds={"work": None})

    async def scenario():
        async with PostgresStore(roles.url("worker")) as store:
            await store.enqueue(
                [*jobs, NewJob("late", "work", deadline_at=2.0, run_at=9.0)], now=1.0
            )
            claims = (await store.tick("w", claim=request, now=1.0)).claims
            (retried,) = [claim for claim in claims if claim.job_id == "retried"]
            again = Retry(5, JobError(ErrorCode.GW_5XX, "no"))
            await store.tick("w", [Finished(retried.lease, again)], now=2.0)
            assert (await store.rescue(now=1e6)).dead == ("lost",)
            assert [job.job_id for job in await store.expire_deadlines(now=1e6)] == ["late"]
            assert (await store.stats()).dead_letters == 2

    asyncio.run(scenario())


def test_a_missing_right_has_a_clear_error(roles):
    async def scenario():
        async with PostgresStore(roles.url("enqueuer")) as store:
            await store.enqueue([NewJob("a", "work")])
            with pytest.raises(
                StoreUnusable, match=r"permission denied.*check the account.*rights"
            ):
                await store.cancel("a")

    asyncio.run(scenario())
