"""The schema: applied in order, once, never backwards, and the same as the one under review."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from holdfast.jobs.model import MOVES, JobStatus
from holdfast.jobs.store_port import StoreError, StoreUnusable
from holdfast.store.postgres import migrations
from holdfast.store.postgres.connection import Database
from holdfast.store.postgres.migrations import Migration, known_migrations, migrate
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
SELECT 'trigger ' || pg_get_triggerdef(oid)
FROM pg_trigger WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE 'holdfast.%'
UNION ALL
SELECT 'function ' || proname || '(' || pg_get_function_identity_arguments(oid) || ') '
    || md5(prosrc)
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


def test_migrations_are_numbered_without_gaps():
    versions = [migration.version for migration in known_migrations()]
    assert versions == list(range(1, len(versions) + 1))
    assert all(migration.name for migration in known_migrations())


def test_a_fresh_database_gets_them_all_and_a_second_run_none(empty_url):
    async def scenario():
        assert await PostgresStore(empty_url).migrate() == tuple(
            migration.version for migration in known_migrations()
        )
        assert await PostgresStore(empty_url).migrate() == ()
        async with PostgresStore(empty_url) as store:
            assert await store.schema_version() == known_migrations()[-1].version

    asyncio.run(scenario())


def test_any_number_of_processes_may_migrate_at_once(empty_url):
    async def scenario():
        applied = await asyncio.gather(*(PostgresStore(empty_url).migrate() for _ in range(5)))
        assert sorted(map(len, applied)) == [0, 0, 0, 0, len(known_migrations())]

    asyncio.run(scenario())


def test_the_sum_of_the_migrations_is_the_declared_schema(empty_url):
    """Where a change is meant: write what the assertion shows to schema.txt, and review it."""

    async def scenario():
        await PostgresStore(empty_url).migrate()
        return [row[0] for row in await fetch(empty_url, CATALOGUE)]

    found = "\n".join(asyncio.run(scenario())) + "\n"
    assert found == DECLARED.read_text(encoding="utf-8")


def test_a_database_without_the_schema_says_how_to_get_it(empty_url):
    with pytest.raises(StoreUnusable, match=r"has no Holdfast schema.*run: holdfast migrate"):
        asyncio.run(PostgresStore(empty_url).open())


def test_a_store_that_migrates_by_itself_needs_no_command(empty_url):
    async def scenario():
        async with PostgresStore(empty_url, migrate=True) as store:
            assert await store.schema_version() == known_migrations()[-1].version

    asyncio.run(scenario())


def test_an_older_schema_says_how_to_bring_it_up_to_date(postgres_url):
    async def scenario():
        await fetch(
            postgres_url,
            "DELETE FROM holdfast.schema_migrations WHERE version > 1",
        )
        with pytest.raises(StoreUnusable, match=r"has schema version 1.*run: holdfast migrate"):
            await PostgresStore(postgres_url).open()

    asyncio.run(scenario())


def test_a_newer_schema_is_refused_with_what_to_do(postgres_url):
    async def scenario():
        await fetch(postgres_url, "INSERT INTO holdfast.schema_migrations VALUES (999, 'x', now())")
        for migrates in (False, True):
            with pytest.raises(StoreUnusable, match=r"schema version 999.*upgrade Holdfast"):
                await PostgresStore(postgres_url, migrate=migrates).open()

    asyncio.run(scenario())


def test_a_migration_that_fails_leaves_nothing_behind(empty_url, monkeypatch):
    broken = (*known_migrations(), Migration(999, "broken", "CREATE TABLE t (x int); NONSENSE"))
    monkeypatch.setattr(migrations, "known_migrations", lambda: broken)

    async def scenario():
        database = Database(empty_url, connections=1, timeout=30)
        await database.open()
        with pytest.raises(StoreError, match="NONSENSE"):
            await migrate(database)
        await database.close()
        return await fetch(empty_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'")

    assert asyncio.run(scenario()) == []


def test_the_trigger_knows_the_same_moves_as_the_model():
    (rules,) = [migration.sql for migration in known_migrations() if migration.name == "rules"]
    for origin in JobStatus:
        targets = {target for source, target in MOVES if source is origin}
        line = next((line for line in rules.splitlines() if f"WHEN '{origin}' THEN" in line), "")
        assert {status for status in JobStatus if f"'{status}'" in line.partition("THEN")[2]} == (
            targets
        )


def test_both_dialects_keep_their_queries_in_the_same_files():
    ours, theirs = (
        {file.name for file in sql_files(f"holdfast.store.{dialect}", "sql")}
        for dialect in ("postgres", "sqlite")
    )
    assert ours == theirs
