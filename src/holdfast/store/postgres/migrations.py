"""Bring a database to the schema of this release."""

from collections.abc import Mapping, Sequence

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.migrations import (
    FUNCTIONS,
    Missing,
    Recorded,
    Schema,
    all_missing,
    checksum,
    load_schema,
)
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
_CHECK_AT_ONCE = "SET LOCAL check_function_bodies = on;"
_RECORD = """
INSERT INTO holdfast.migrations (version, name, checksum) VALUES ({}, '{}', '{}');
"""
_RECORD_OF_APP = """
INSERT INTO holdfast.app_migrations (app, version, name, checksum) VALUES ('{}', {}, '{}', '{}');
"""
_FORGET_FUNCTIONS = "DELETE FROM holdfast.migrations WHERE version = 0;"


async def migrate(
    database: Database, schema: Schema = SCHEMA, apps: Sequence[Schema] = ()
) -> tuple[int, ...]:
    """Apply what is missing, all in one transaction, and return the versions applied of `schema`.

    Safe to run from any number of processes at once: one of them does it while the others wait.

    Args:
        apps: the schemas of apps with tables of their own.

    Raises:
        StoreUnusable: the database has a schema that this release cannot migrate.
    """

    async def apply(connection: Connection) -> tuple[int, ...]:
        await connection.execute(_LOCK)
        missing = await missing_from(connection, schema, apps)
        if missing:
            await connection.execute(_statements(schema, missing))
        return tuple(each.version for each in missing.migrations if not each.app)

    return await database.transaction(apply)


async def missing_from(
    connection: Connection, schema: Schema = SCHEMA, apps: Sequence[Schema] = ()
) -> Missing:
    """Return what the database lacks of `schema` and of those of `apps`.

    Raises:
        StoreUnusable: it has a schema that this release cannot migrate.
    """
    of_apps = await recorded_of_apps(connection) if apps else {}
    return all_missing(schema, apps, await recorded(connection), of_apps)


async def check_usable(connection: Connection, apps: Sequence[Schema] = ()) -> None:
    """Refuse a database that lacks something of this release, or of `apps`.

    Raises:
        StoreUnusable: it does, or something was changed, or is too new.
    """
    SCHEMA.check_usable(await recorded(connection))
    if apps:
        of_apps = await recorded_of_apps(connection)
        for schema in apps:
            schema.check_usable(of_apps.get(schema.app, {}))


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


async def recorded_of_apps(connection: Connection) -> Mapping[str, Recorded]:
    """Return what the database says was applied of each app's own migrations, by its name."""
    if await connection.fetchval("SELECT to_regclass('holdfast.app_migrations')") is None:
        return {}
    found: dict[str, dict[int, str]] = {}
    for row in await connection.fetch("SELECT app, version, checksum FROM holdfast.app_migrations"):
        found.setdefault(row["app"], {})[row["version"]] = row["checksum"]
    return found


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
        if not each.app:
            parts += [each.sql, _RECORD.format(each.version, each.name, each.checksum)]
    if missing.functions:
        record = _RECORD.format(FUNCTIONS, "functions", checksum(schema.functions))
        parts += [_CHECK_LATER, schema.functions, _FORGET_FUNCTIONS, record, _CHECK_AT_ONCE]
    for each in missing.migrations:
        if each.app:
            record = _RECORD_OF_APP.format(each.app, each.version, each.name, each.checksum)
            parts += [each.sql, record]
    return "\n".join(parts)
