"""Bring a database file to the schema of this version of Holdfast."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import apsw

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.sql_files import sql_files


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
    for file in sql_files("holdfast.store.sqlite", "migrations"):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        migrations.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return tuple(migrations)


def migrate(connection: apsw.Connection, now: float) -> tuple[int, ...]:
    """Apply what is missing, all in one transaction, and return the versions applied.

    Safe to run from any number of processes at once: one of them does it, the others find it done.

    Raises:
        StoreUnusable: the database was written by a newer version of Holdfast.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied = tuple(_apply_missing(connection, now))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return applied


def _apply_missing(connection: apsw.Connection, now: float) -> list[int]:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations ("
        "version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at REAL NOT NULL) STRICT"
    )
    current = schema_version(connection)
    newest = known_migrations()[-1].version
    if current > newest:
        raise StoreUnusable(
            f"the database has schema version {current}, this Holdfast knows {newest}: "
            "upgrade Holdfast, or use the database of this version"
        )
    applied = []
    for migration in known_migrations():
        if migration.version > current:
            connection.execute(migration.sql)
            connection.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, ?)",
                (migration.version, migration.name, now),
            )
            applied.append(migration.version)
    return applied


def schema_version(connection: apsw.Connection) -> int:
    """Return the newest version applied, 0 where there is none."""
    newest = "SELECT coalesce(max(version), 0) FROM schema_migrations"
    rows: list[tuple[Any, ...]] = connection.execute(newest).fetchall()
    return int(rows[0][0])
