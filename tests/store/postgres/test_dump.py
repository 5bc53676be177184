"""A dump in any form restores: the jobs are there, and run."""

import asyncio
import os
import subprocess

import pytest
from tests.store.postgres.conftest import ANY, BROKEN, jobs
from tests.support.postgres_server import find_binaries

from holdfast.jobs.model import Completed, Failed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.migrations import checksum
from holdfast.store.postgres.migrations import SCHEMA
from holdfast.store.postgres.store import PostgresStore

STATUSES = {
    JobStatus.UPLOADED: 1,
    JobStatus.QUEUED: 12,
    JobStatus.PROCESSING: 3,
    JobStatus.COMPLETE: 4,
    JobStatus.FAILED: 3,
    JobStatus.CANCELLED: 1,
}


def run(program, *arguments, sql=None):
    """Run one of PostgreSQL's own programs; what it complains about fails the test."""
    done = subprocess.run(
        [find_binaries() / program, *arguments],
        input=sql,
        env={**os.environ, "PGCONNECT_TIMEOUT": "10"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def restore_plain(url, dump):
    run("psql", url, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", sql=dump)


async def fill(url):
    """Leave jobs in every status, some with a history."""
    async with PostgresStore(url) as store:
        await store.enqueue(
            [
                *jobs(20, dedup_key=None, owner="ann"),
                NewJob("up", "work", status=JobStatus.UPLOADED),
                NewJob("gone", "work"),
                NewJob("odd", "work", downstream="gateway", dedup_key="k", run_at=9e9),
                NewJob("odder", "other", arguments='"a\\ttab"'),
            ]
        )
        await store.cancel("gone")
        claims = (await store.tick("w", claim=ANY)).claims
        reports = [Finished(claim.lease, Completed('"done"')) for claim in claims[:4]]
        reports += [Finished(claim.lease, Failed(BROKEN)) for claim in claims[4:7]]
        await store.tick("w", reports)
        await store.rescue()


async def stored(url):
    """Return all that a reader sees of the jobs and their histories."""
    async with PostgresStore(url) as store:
        page = (await store.list_jobs(limit=100)).jobs
        histories = [(await store.events(job.id), await store.attempts(job.id)) for job in page]
        return page, histories, await store.stats(), await store.last_sequence()


async def go_on(url):
    """Use what was restored: new jobs and lanes, claims, completions."""
    async with PostgresStore(url) as store:
        (answer,) = await store.enqueue([NewJob("twin", "work", dedup_key="k")])
        assert (answer.id, answer.created) == ("odd", False)
        await store.enqueue([NewJob("new", "work"), NewJob("newer", "new-kind")])
        start = await store.last_sequence()
        claims = (await store.tick("w2", claim=ANY)).claims
        assert len(claims) == 10
        await store.tick("w2", [Finished(claim.lease, Completed()) for claim in claims])
        assert len(await store.changes_since(start)) == 20


@pytest.fixture
def source(postgres_url):
    asyncio.run(fill(postgres_url))
    page, *_ = asyncio.run(stored(postgres_url))
    assert {status: sum(job.status is status for job in page) for status in STATUSES} == STATUSES
    return postgres_url


@pytest.fixture
def target(postgres_server):
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def check(source, target):
    assert asyncio.run(stored(target)) == asyncio.run(stored(source))
    asyncio.run(go_on(target))


@pytest.mark.parametrize("form", [[], ["--inserts"], ["--schema=holdfast"]], ids=str)
def test_a_plain_dump_restores(source, target, form):
    restore_plain(target, run("pg_dump", *form, source))
    check(source, target)


@pytest.mark.parametrize("form", ["custom", "directory", "tar"])
def test_an_archive_restores(source, target, tmp_path, form):
    path = tmp_path / "dump"
    run("pg_dump", f"--format={form}", f"--file={path}", source)
    run("pg_restore", f"--dbname={target}", "--exit-on-error", str(path))
    check(source, target)


@pytest.mark.parametrize("form", [[], ["--inserts"]], ids=str)
def test_a_plain_dump_of_the_data_restores_into_a_migrated_database(source, target, form):
    asyncio.run(PostgresStore(target).migrate())
    restore_plain(target, run("pg_dump", "--data-only", *form, source))
    check(source, target)


@pytest.mark.parametrize("form", ["custom", "directory"])
def test_the_data_of_an_archive_restores_into_a_migrated_database(source, target, tmp_path, form):
    asyncio.run(PostgresStore(target).migrate())
    path = tmp_path / "dump"
    run("pg_dump", f"--format={form}", f"--file={path}", source)
    run("pg_restore", "--data-only", f"--dbname={target}", "--exit-on-error", str(path))
    check(source, target)


def test_schema_and_data_restore_one_after_the_other(source, target):
    restore_plain(target, run("pg_dump", "--schema-only", source))
    restore_plain(target, run("pg_dump", "--data-only", source))
    check(source, target)


def test_the_error_for_a_schema_without_data_has_advice(source, target):
    restore_plain(target, run("pg_dump", "--schema-only", source))
    for attempt in (PostgresStore(target).migrate, PostgresStore(target).open):
        with pytest.raises(StoreUnusable, match=r"restore the data of holdfast\.migrations"):
            asyncio.run(attempt())
    restore_plain(target, run("pg_dump", "--data-only", "--table=holdfast.migrations", source))
    asyncio.run(PostgresStore(target).migrate())
    assert asyncio.run(stored(target))[0] == ()


def test_a_restored_database_keeps_its_own_record_of_migrations(source, target):
    """A dump of an older release may be restored into a schema that is newer."""
    asyncio.run(PostgresStore(target).migrate())
    dump = run("pg_dump", "--data-only", source).replace(checksum(SCHEMA.functions), "older")
    assert "older" in dump
    restore_plain(target, dump)
    check(source, target)
