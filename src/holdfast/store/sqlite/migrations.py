"""Bring a database file to the schema of this release."""

from pathlib import Path

import apsw

from holdfast.store.migrations import Missing, Recorded, Schema, load_schema
from holdfast.store.sqlite.connection import connect, disconnect

SCHEMA = load_schema("holdfast.store.sqlite")

_CREATE = """
-- What was applied, with the SHA-256 of its text.
CREATE TABLE IF NOT EXISTS holdfast_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ'))
) STRICT;
"""
_RECORD = "INSERT INTO holdfast_migrations (version, name, checksum) VALUES ({}, '{}', '{}');"


def migrate(connection: apsw.Connection, schema: Schema = SCHEMA) -> tuple[int, ...]:
    """Apply what is missing, all in one transaction, and return the versions applied.

    Safe to run from any number of processes at once: one of them does it, the others find it done.

    Raises:
        StoreUnusable: the file has a schema that this release cannot migrate.
    """
    if not schema.missing_from(recorded(connection)):
        return ()
    connection.execute("BEGIN IMMEDIATE")
    try:
        missing = schema.missing_from(recorded(connection))
        connection.execute(_statements(missing))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return tuple(each.version for each in missing.migrations)


def recorded(connection: apsw.Connection) -> Recorded:
    """Return what the file says was applied."""
    table = "SELECT name FROM sqlite_schema WHERE name = 'holdfast_migrations'"
    if not connection.execute(table).fetchall():
        return {}
    return dict(connection.execute("SELECT version, checksum FROM holdfast_migrations"))


def missing_from_file(path: Path, busy_timeout: float) -> Missing:
    """Return what the schema of the file at `path` lacks, changing nothing.

    Raises:
        StoreUnusable: it is not a database, or has a schema that this release cannot migrate.
        StoreUnavailable: it cannot be read at the moment.
    """
    if not path.exists():
        return SCHEMA.missing_from({})
    connection = connect(path, busy_timeout=busy_timeout, read_only=True)
    try:
        return SCHEMA.missing_from(recorded(connection))
    finally:
        disconnect(connection)


def script(missing: Missing) -> str:
    """Return what `migrate` would run; "" where nothing is missing."""
    return f"BEGIN IMMEDIATE;\n{_statements(missing)}\nCOMMIT;\n" if missing else ""


def _statements(missing: Missing) -> str:
    parts = [_CREATE]
    for each in missing.migrations:
        parts += [each.sql, _RECORD.format(each.version, each.name, each.checksum)]
    return "\n".join(parts)
