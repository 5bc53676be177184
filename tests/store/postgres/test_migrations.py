"""The schema: applied once, in order, never changed afterwards, and replaced while workers run."""

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from holdfast.jobs.model import MOVES, JobStatus
from holdfast.jobs.store_port import StoreError, StoreUnusable
from holdfast.store.migrations import FUNCTIONS, Migration, Schema, checksum
from holdfast.store.postgres.connection import Database
from holdfast.store.postgres.migrations import SCHEMA, migrate, script
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sql_files import sql_files

DECLARED = Path(__file__).with_name("schema.txt")

CATALOGUE = """
SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type
    || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
    || coalesce(' default ' || column_default, '')
FROM information_schema.columns WHERE table_schema = 'holdfast'
UNION ALL
SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'holdfast'::regnamespace AND contype <> 'n'
UNION ALL
SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'holdfast'
UNION ALL
SELECT 'trigger ' || pg_get_triggerdef(pg_trigger.oid)
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND relnamespace = 'holdfast'::regnamespace
UNION ALL
SELECT 'function ' || proname || '(' || pg_get_function_identity_arguments(oid) || ') '
    || pg_get_function_result(oid)
FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace
UNION ALL
SELECT 'enumeration ' || typname || ': ' || string_agg(enumlabel, ', ' ORDER BY enumsortorder)
FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid
WHERE typnamespace = 'holdfast'::regnamespace GROUP BY typname
UNION ALL
SELECT 'field ' || udt_name || '.' || attribute_name || ' ' || attribute_udt_name
FROM information_schema.attributes WHERE udt_schema = 'holdfast'
UNION ALL
SELECT 'storage ' || relname || ' ' || array_to_string(reloptions, ', ')
FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND reloptions IS NOT NULL
ORDER BY 1
"""


@pytest.fixture
def empty_url(postgres_server):
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


async def fetch(url, sql, *values):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(sql, *values)
    finally:
        await connection.close()


async def migrate_to(url, schema):
    database = Database(url, connections=1, timeout=30)
    await database.open()
    try:
        return await migrate(database, schema)
    finally:
        await database.close()


def catalogue(url):
    return [row[0] for row in asyncio.run(fetch(url, CATALOGUE))]


def versions(schema):
    return tuple(migration.version for migration in schema.migrations)


def next_schema(sql="ALTER TABLE holdfast.jobs ADD COLUMN colour text", functions=""):
    """Return the schema of an invented next release."""
    number = SCHEMA.version + 1
    return Schema(
        (*SCHEMA.migrations, Migration(number, "invented", f"{sql};")),
        SCHEMA.functions + functions,
    )


def test_migrations_are_numbered_without_gaps():
    assert versions(SCHEMA) == tuple(range(1, SCHEMA.version + 1))
    assert all(migration.name for migration in SCHEMA.migrations)


def test_a_fresh_database_gets_them_all_and_a_second_run_none(empty_url):
    async def scenario():
        assert await PostgresStore(empty_url).migrate() == versions(SCHEMA)
        assert await PostgresStore(empty_url).migrate() == ()
        async with PostgresStore(empty_url) as store:
            assert await store.schema_version() == SCHEMA.version

    asyncio.run(scenario())


def test_applied_migrations_are_recorded_with_their_checksums(postgres_url):
    rows = asyncio.run(
        fetch(postgres_url, "SELECT version, name, checksum FROM holdfast.migrations ORDER BY 1")
    )
    assert [tuple(row) for row in rows] == [
        (FUNCTIONS, "functions", checksum(SCHEMA.functions)),
        *((each.version, each.name, each.checksum) for each in SCHEMA.migrations),
    ]


def test_any_number_of_processes_may_migrate_at_once(empty_url):
    async def scenario():
        applied = await asyncio.gather(*(PostgresStore(empty_url).migrate() for _ in range(5)))
        assert sorted(applied) == [(), (), (), (), versions(SCHEMA)]

    asyncio.run(scenario())


def test_the_sum_of_the_migrations_is_the_declared_schema(postgres_url):
    """Where a change is meant: write what the assertion shows to schema.txt, and review it."""
    assert "\n".join(catalogue(postgres_url)) + "\n" == DECLARED.read_text(encoding="utf-8")


def test_an_index_whose_build_did_not_finish_is_refused(empty_url):
    name = "holdfast.jobs_ready_by_owner"
    invalid = f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}'::regclass"
    before = Schema(SCHEMA.migrations[:1], "")

    async def scenario():
        await migrate_to(empty_url, before)
        await fetch(empty_url, "CREATE INDEX jobs_ready_by_owner ON holdfast.jobs (lane)")
        await fetch(empty_url, invalid)
        with pytest.raises(StoreError, match=r"is invalid: CREATE INDEX CONCURRENTLY did not"):
            await PostgresStore(empty_url).migrate()
        await fetch(empty_url, f"DROP INDEX {name}")
        assert await PostgresStore(empty_url).migrate() == versions(SCHEMA)[1:]

    asyncio.run(scenario())


def test_the_error_for_a_missing_schema_has_advice(empty_url):
    with pytest.raises(StoreUnusable, match=r"has no Holdfast schema.*run: holdfast migrate"):
        asyncio.run(PostgresStore(empty_url).open())


def test_a_store_that_migrates_by_itself_needs_no_command(empty_url):
    async def scenario():
        async with PostgresStore(empty_url, migrate=True) as store:
            assert await store.schema_version() == SCHEMA.version

    asyncio.run(scenario())


def test_an_older_schema_is_refused_until_it_is_migrated(postgres_url):
    recorded = {each.version: each.checksum for each in SCHEMA.migrations}
    words = rf"has schema version {SCHEMA.version}.*invented.*holdfast migrate"
    with pytest.raises(StoreUnusable, match=words):
        next_schema().check_usable(recorded)


def test_an_applied_migration_with_another_text_is_refused(postgres_url):
    async def scenario():
        await fetch(
            postgres_url, "UPDATE holdfast.migrations SET checksum = 'other' WHERE version = 1"
        )
        for store in (PostgresStore(postgres_url), PostgresStore(postgres_url, migrate=True)):
            with pytest.raises(StoreUnusable, match=r"migration 1 \(baseline\).*another text"):
                await store.open()

    asyncio.run(scenario())


def test_functions_are_replaced_when_their_text_changes(postgres_url):
    changed = replace(
        SCHEMA,
        functions=SCHEMA.functions
        + "CREATE OR REPLACE FUNCTION holdfast.time_of(p_now double precision) "
        "RETURNS double precision LANGUAGE sql VOLATILE AS 'SELECT 42.0::double precision';",
    )

    async def scenario():
        assert await migrate_to(postgres_url, changed) == ()
        changed_time = await fetch(postgres_url, "SELECT holdfast.time_of(NULL)")
        with pytest.raises(StoreUnusable, match=r"functions of this release.*holdfast migrate"):
            await PostgresStore(postgres_url).open()
        await PostgresStore(postgres_url).migrate()
        real_time = await fetch(postgres_url, "SELECT holdfast.time_of(NULL)")
        return changed_time[0][0], real_time[0][0]

    changed_time, real_time = asyncio.run(scenario())
    assert changed_time == 42.0
    assert real_time > 1e9


def test_the_next_schema_is_used_as_it_is(postgres_url):
    newer = next_schema(
        functions="CREATE OR REPLACE FUNCTION holdfast.colour_of(p_id text) RETURNS text "
        "LANGUAGE sql STABLE AS 'SELECT colour FROM holdfast.jobs WHERE id = p_id';"
    )

    async def scenario():
        assert await migrate_to(postgres_url, newer) == (SCHEMA.version + 1,)
        before = await fetch(postgres_url, CATALOGUE)
        for migrates in (False, True):
            async with PostgresStore(postgres_url, migrate=migrates) as store:
                assert await store.schema_version() == SCHEMA.version + 1
        assert not await PostgresStore(postgres_url).missing()
        assert before == await fetch(postgres_url, CATALOGUE)

    asyncio.run(scenario())


def test_a_schema_two_versions_ahead_is_refused_with_both_ways_out(postgres_url):
    async def scenario():
        await fetch(
            postgres_url,
            "INSERT INTO holdfast.migrations VALUES ($1, 'x', 'y')",
            SCHEMA.version + 2,
        )
        for migrates in (False, True):
            with pytest.raises(StoreUnusable, match=r"upgrade Holdfast, or let it use another"):
                await PostgresStore(postgres_url, migrate=migrates).open()

    asyncio.run(scenario())


def test_a_migration_that_fails_leaves_nothing_behind(empty_url):
    async def scenario():
        with pytest.raises(StoreError, match="NONSENSE"):
            await migrate_to(empty_url, next_schema("CREATE TABLE t (x int); NONSENSE"))
        return await fetch(empty_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'")

    assert asyncio.run(scenario()) == []


def psql(url, sql):
    """Apply `sql` as a person would."""
    done = subprocess.run(
        ["psql", url, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"],
        input=sql,
        env={**os.environ, "PGCONNECT_TIMEOUT": "10"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_the_script_applied_by_hand_gives_the_same_schema(empty_url, postgres_url):
    async def missing_and_script():
        store = PostgresStore(empty_url)
        return await store.missing(), await store.migration_script()

    missing, text = asyncio.run(missing_and_script())
    assert str(missing).endswith("the functions of this release")
    assert psql(empty_url, text) == (0, "")
    assert catalogue(empty_url) == catalogue(postgres_url)
    missing, text_after = asyncio.run(missing_and_script())
    assert not missing
    assert text_after == ""
    assert psql(empty_url, text)[0] != 0
    assert catalogue(empty_url) == catalogue(postgres_url)


def test_a_script_for_the_next_release_has_only_missing_migrations(postgres_url):
    newer = next_schema()

    async def scenario():
        missing = newer.missing_from(
            {each.version: each.checksum for each in SCHEMA.migrations}
            | {FUNCTIONS: checksum(SCHEMA.functions)}
        )
        return str(missing), script(newer, missing)

    missing, text = asyncio.run(scenario())
    assert missing == f"migration {newer.version} (invented)"
    assert "CREATE SCHEMA" not in text
    assert "CREATE OR REPLACE FUNCTION" not in text
    assert psql(postgres_url, text) == (0, "")


def test_the_trigger_knows_the_same_moves_as_the_model():
    for origin in JobStatus:
        targets = {target for source, target in MOVES if source is origin}
        lines = SCHEMA.functions.splitlines()
        line = next((each for each in lines if f"WHEN '{origin}' THEN NEW.status" in each), "")
        assert {status for status in JobStatus if f"'{status}'" in line.partition("THEN")[2]} == (
            targets
        )


def test_both_dialects_keep_their_queries_in_the_same_files():
    ours, theirs = (
        {file.name for file in sql_files(f"holdfast.store.{dialect}", "sql")}
        for dialect in ("postgres", "sqlite")
    )
    assert ours == theirs
