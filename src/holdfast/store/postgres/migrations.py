"""Bring a database to the schema of this release."""

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.migrations import FUNCTIONS, Missing, Recorded, Schema, checksum, load_schema
from holdfast.store.postgres.connection import Connection, Database, check_server

SCHEMA = load_schema("holdfast.store.postgres")

# An advisory lock of our own: "HFmigrat" in ASCII.
_LOCK = "SELECT pg_advisory_xact_lock(5207970318575100276)"
_CREATE = """
-- A role that may create nothing else in the database can be given the schema.
DO $$ BEGIN
    IF to_regnamespace('holdfast') IS NULL THEN
        CREATE SCHEMA holdfast;
    END IF;
END $$;
-- What was applied, with the SHA-256 of its text. Version 0 is the functions, replaced as a whole.
CREATE TABLE holdfast.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""
# A migration that must wait for a lock makes every statement behind it wait: give up soon.
_GIVE_UP_SOON = "SET LOCAL lock_timeout = '10s';"
# Functions call each other, so they are not checked until all of them are there.
_CHECK_LATER = "SET LOCAL check_function_bodies = off;"
_RECORD = """
INSERT INTO holdfast.migrations (version, name, checksum) VALUES ({}, '{}', '{}');
"""
_FORGET_FUNCTIONS = "DELETE FROM holdfast.migrations WHERE version = 0;"


async def migrate(database: Database, schema: Schema = SCHEMA) -> tuple[int, ...]:
    """Apply what is missing, all in one transaction, and return the versions applied.

    Safe to run from any number of processes at once: one of them does it while the others wait.

    Raises:
        StoreUnusable: the database has a schema that this release cannot migrate.
    """

    async def apply(connection: Connection) -> tuple[int, ...]:
        await connection.execute(_LOCK)
        missing = schema.missing_from(await recorded(connection))
        if missing:
            await connection.execute(_statements(schema, missing))
        return tuple(migration.version for migration in missing.migrations)

    return await database.transaction(apply)


async def recorded(connection: Connection) -> Recorded:
    """Return what the database says was applied.

    Raises:
        StoreUnusable: the server is too old, or the tables are there without a record of them.
    """
    check_server(connection.get_server_version())
    if await connection.fetchval("SELECT to_regclass('holdfast.migrations')") is None:
        return {}
    found = await connection.fetch("SELECT version, checksum FROM holdfast.migrations")
    if not found:
        raise StoreUnusable(
            "the database has Holdfast's tables, but no record of the migrations that created "
            "them: restore the data of holdfast.migrations from the same dump, or drop the schema "
            "holdfast and migrate again"
        )
    return {row["version"]: row["checksum"] for row in found}


def script(schema: Schema, missing: Missing) -> str:
    """Return what `migrate` would run, for a person to run with psql; "" where nothing is missing.

    Run a second time it fails and changes nothing.
    """
    return f"BEGIN;\n{_LOCK};\n{_statements(schema, missing)}\nCOMMIT;\n" if missing else ""


def _statements(schema: Schema, missing: Missing) -> str:
    parts = [_GIVE_UP_SOON]
    if missing.migrations[:1] == schema.migrations[:1]:
        parts.append(_CREATE)
    for each in missing.migrations:
        parts += [each.sql, _RECORD.format(each.version, each.name, each.checksum)]
    if missing.functions:
        record = _RECORD.format(FUNCTIONS, "functions", checksum(schema.functions))
        parts += [_CHECK_LATER, schema.functions, _FORGET_FUNCTIONS, record]
    return "\n".join(parts)
