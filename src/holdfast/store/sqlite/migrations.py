"""Bring a database file to the schema of this release."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import apsw

from holdfast.store.migrations import Missing, Recorded, Schema, all_missing, load_schema
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
_RECORD_OF_APP = (
    "INSERT INTO holdfast_app_migrations (app, version, name, checksum) "
    "VALUES ('{}', {}, '{}', '{}');"
)


def migrate(
    connection: apsw.Connection, schema: Schema = SCHEMA, apps: Sequence[Schema] = ()
) -> tuple[int, ...]:
    """Apply what is missing, all in one transaction, and return the versions applied of `schema`.

    Safe to run from any number of processes at once: one of them does it, the others find it done.

    Args:
        apps: the schemas of apps with tables of their own.

    Raises:
        StoreUnusable: the file has a schema that this release cannot migrate.
    """
    if not _missing(connection, schema, apps):
        return ()
    connection.execute("BEGIN IMMEDIATE")
    try:
        missing = _missing(connection, schema, apps)
        # All rows are fetched: a statement that returns some would keep the next ones from running.
        connection.execute(_statements(missing)).fetchall()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return tuple(each.version for each in missing.migrations if not each.app)


def _missing(connection: apsw.Connection, schema: Schema, apps: Sequence[Schema]) -> Missing:
    of_apps = recorded_of_apps(connection) if apps else {}
    return all_missing(schema, apps, recorded(connection), of_apps)


def recorded(connection: apsw.Connection) -> Recorded:
    """Return what the file says was applied."""
    if not _has_table(connection, "holdfast_migrations"):
        return {}
    return dict(connection.execute("SELECT version, checksum FROM holdfast_migrations"))


def recorded_of_apps(connection: apsw.Connection) -> Mapping[str, Recorded]:
    """Return what the file says was applied of each app's own migrations, by the app's name."""
    if not _has_table(connection, "holdfast_app_migrations"):
        return {}
    found: dict[str, dict[int, str]] = {}
    rows = connection.execute("SELECT app, version, checksum FROM holdfast_app_migrations")
    for app, version, text in rows:
        found.setdefault(app, {})[version] = text
    return found


def _has_table(connection: apsw.Connection, name: str) -> bool:
    table = "SELECT name FROM sqlite_schema WHERE name = ?"
    return bool(connection.execute(table, (name,)).fetchall())


def missing_from_file(path: Path, busy_timeout: float, apps: Sequence[Schema] = ()) -> Missing:
    """Return what the schema of the file at `path` lacks, changing nothing.

    Raises:
        StoreUnusable: it is not a database, or has a schema that this release cannot migrate.
        StoreUnavailable: it cannot be read at the moment.
    """
    if not path.exists():
        return all_missing(SCHEMA, apps, {}, {})
    connection = connect(path, busy_timeout=busy_timeout, read_only=True)
    try:
        return _missing(connection, SCHEMA, apps)
    finally:
        disconnect(connection)


def script(missing: Missing) -> str:
    """Return what `migrate` would run; "" where nothing is missing."""
    return f"BEGIN IMMEDIATE;\n{_statements(missing)}\nCOMMIT;\n" if missing else ""


def _statements(missing: Missing) -> str:
    parts = [_CREATE]
    for each in missing.migrations:
        record = (
            _RECORD_OF_APP.format(each.app, each.version, each.name, each.checksum)
            if each.app
            else _RECORD.format(each.version, each.name, each.checksum)
        )
        parts += [each.sql, record]
    return "\n".join(parts)
