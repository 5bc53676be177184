"""Bring a database to the schema of this version of Holdfast."""

from dataclasses import dataclass
from functools import cache

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.postgres.connection import Connection, Database
from holdfast.store.sql_files import sql_files

# "HF" and "migrate" in ASCII; nobody else's lock.
_LOCK = 0x4846_6D69_6772_6174


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: `0001_jobs.sql` is version 1, named jobs."""

    version: int
    name: str
    sql: str


@cache
def known_migrations() -> tuple[Migration, ...]:
    """Return all migrations in their order."""
    migrations = []
    for file in sql_files("holdfast.store.postgres", "migrations"):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        migrations.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return tuple(migrations)


async def migrate(database: Database) -> tuple[int, ...]:
    """Apply what is missing, all in one transaction, and return the versions applied.

    Safe to run from any number of processes at once: one of them does it, the others find it done.

    Raises:
        StoreUnusable: the database was written by a newer version of Holdfast.
    """
    return await database.transaction(_apply_missing)


async def _apply_missing(connection: Connection) -> tuple[int, ...]:
    await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
    current = await schema_version(connection)
    check_not_newer(current)
    if current == 0:
        await connection.execute("CREATE SCHEMA IF NOT EXISTS holdfast")
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS holdfast.schema_migrations (version integer PRIMARY KEY, "
            "name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
    applied = []
    for migration in known_migrations():
        if migration.version > current:
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO holdfast.schema_migrations (version, name) VALUES ($1, $2)",
                migration.version,
                migration.name,
            )
            applied.append(migration.version)
    return tuple(applied)


async def schema_version(connection: Connection) -> int:
    """Return the newest version applied, 0 where there is none."""
    if await connection.fetchval("SELECT to_regclass('holdfast.schema_migrations')") is None:
        return 0
    query = "SELECT coalesce(max(version), 0) FROM holdfast.schema_migrations"
    return int(await connection.fetchval(query))


def check_not_newer(current: int) -> None:
    """Refuse a schema that this version does not know.

    Raises:
        StoreUnusable: it is newer.
    """
    newest = known_migrations()[-1].version
    if current > newest:
        raise StoreUnusable(
            f"the database has schema version {current}, this Holdfast knows {newest}: "
            "upgrade Holdfast, or use the database of this version"
        )


def check_current(current: int) -> None:
    """Refuse a schema that is not the one this version works with.

    Raises:
        StoreUnusable: it is newer, older or missing; the message says what to do.
    """
    check_not_newer(current)
    newest = known_migrations()[-1].version
    if current < newest:
        found = f"has schema version {current}" if current else "has no Holdfast schema"
        raise StoreUnusable(
            f"the database {found}, this Holdfast needs {newest}: run: holdfast migrate"
        )
