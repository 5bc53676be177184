"""The schema that this release ships for a dialect, and what a database lacks of it.

Migrations are append-only: each is applied once, in order, and recorded with the checksum of its
text. Functions, where a dialect has them, are replaced as a whole whenever their text has changed.
A release works with the schema that it ships and with the next one, so that workers of both can run
while a fleet is updated; it never puts its own functions back into the newer schema.

Apps with tables of their own have a schema each, with the same rules: see `app_schema`.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.sql_files import sql_files

Recorded = Mapping[int, str]
"""What a database says was applied: checksums by version, that of the functions as `FUNCTIONS`."""

FUNCTIONS = 0
"""The version that the functions are recorded as; migrations begin with 1."""

_FILE = re.compile(r"(\d{4})_(\w+)\.sql", re.ASCII)
_WORDS = (
    "OR|REPLACE|TEMP|TEMPORARY|UNIQUE|UNLOGGED|VIRTUAL|MATERIALIZED|TABLE|VIEW|INDEX|TRIGGER|"
    "FUNCTION|PROCEDURE|SEQUENCE|TYPE|SCHEMA|IF|NOT|EXISTS"
)
_RESERVED = re.compile(rf"\bCREATE\s+(?:(?:{_WORDS})\s+)+[\"`\[]?holdfast[_.]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema: `0001_baseline.sql` is version 1, named baseline.

    `app` is the app whose tables it changes; "" for the store's own.
    """

    version: int
    name: str
    sql: str
    app: str = ""

    def __str__(self) -> str:
        of_app = f" of app {self.app}" if self.app else ""
        return f"migration {self.version} ({self.name}){of_app}"

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hex."""
        return checksum(self.sql)


@dataclass(frozen=True, slots=True)
class Missing:
    """What a database lacks of a release's schema; false where it lacks nothing."""

    migrations: tuple[Migration, ...] = ()
    functions: bool = False

    def __bool__(self) -> bool:
        return bool(self.migrations) or self.functions

    def __str__(self) -> str:
        named = [str(each) for each in self.migrations]
        return ", ".join([*named, *(["the functions of this release"] if self.functions else [])])


@dataclass(frozen=True, slots=True)
class Schema:
    """What a release ships: all migrations in their order, and the functions as one text.

    `app` is the app whose tables these are; "" for the store's own.
    """

    migrations: tuple[Migration, ...]
    functions: str = ""
    app: str = ""

    @property
    def version(self) -> int:
        """The version of the newest migration."""
        return self.migrations[-1].version

    def missing_from(self, recorded: Recorded) -> Missing:
        """Return what must be applied to a database with these records.

        Raises:
            StoreUnusable: an applied migration has another text than the one shipped, or the
                database is more than one version ahead.
        """
        current = newest(recorded)
        release, name = (f"app {self.app}", "the app") if self.app else ("Holdfast", "Holdfast")
        if current > self.version + 1:
            raise StoreUnusable(
                f"{self._found(current)}, but this {release} works with versions {self.version} "
                f"and {self.version + 1}: upgrade {name}, or let it use another database, such as "
                "a backup from before the migration"
            )
        for migration in self.migrations:
            applied = recorded.get(migration.version, migration.checksum)
            if applied != migration.checksum:
                raise StoreUnusable(
                    f"{migration} was applied to this database with another text (checksum "
                    f"{applied[:12]}) than this {release} ships ({migration.checksum[:12]}): use "
                    f"the {release} that migrated the database, or a new database"
                )
        if current > self.version:
            return Missing()
        return Missing(
            tuple(each for each in self.migrations if each.version not in recorded),
            bool(self.functions) and recorded.get(FUNCTIONS) != checksum(self.functions),
        )

    def check_usable(self, recorded: Recorded) -> None:
        """Refuse a database that this release cannot work with as it is.

        Raises:
            StoreUnusable: something is missing, was changed, or is too new; the message says what
                to do.
        """
        missing = self.missing_from(recorded)
        if missing:
            release = f"app {self.app}" if self.app else "Holdfast"
            where = ", with mypackage.jobs:app if the app is not installed" if self.app else ""
            raise StoreUnusable(
                f"{self._found(newest(recorded))}, this {release} needs {self.version} and misses "
                f"{missing}: run: holdfast migrate{where}"
            )

    def _found(self, current: int) -> str:
        """Say at which version the database is."""
        if self.app:
            at = f"at version {current}" if current else "not there"
            return f"the tables of app {self.app} are {at}"
        return (
            f"the database has {f'schema version {current}' if current else 'no Holdfast schema'}"
        )


def all_missing(
    schema: Schema,
    apps: Sequence[Schema],
    recorded: Recorded,
    of_apps: Mapping[str, Recorded],
) -> Missing:
    """Return what must be applied of the store's `schema` and, after it, of those of `apps`.

    Args:
        recorded: what the database says was applied of `schema`.
        of_apps: the same of each app, by name.

    Raises:
        StoreUnusable: see `Schema.missing_from`.
    """
    own = schema.missing_from(recorded)
    more = [
        migration
        for app in apps
        for migration in app.missing_from(of_apps.get(app.app, {})).migrations
    ]
    return replace(own, migrations=(*own.migrations, *more))


class Migratable(Protocol):
    """A store that says what its database lacks, for those who migrate by hand."""

    async def missing(self) -> Missing:
        """Return what the database lacks; the store need not be open."""
        ...

    async def migration_script(self) -> str:
        """Return the SQL that would be applied, as one transaction; "" where nothing is missing."""
        ...


def load_schema(package: str) -> Schema:
    """Return the schema in the folders `migrations` and `functions` of `package`."""
    functions = [file.read_text(encoding="utf-8") for file in sql_files(package, "functions")]
    return Schema(_migrations(package, "migrations"), "\n".join(functions))


def app_schema(app: str, package: str, dialect: str) -> Schema:
    """Return the schema of an app's own tables, in `migrations/<dialect>` of its `package`.

    Raises:
        StoreUnusable: the package or the folder is missing, a file's name is not one of
            `0001_name.sql`, `0002_name.sql`, ..., or a file creates what is named as the store's
            own tables are.
    """
    folder = f"migrations/{dialect}"
    try:
        migrations = _migrations(package, folder, app)
    except ModuleNotFoundError:
        raise StoreUnusable(f"tables of app {app}: there is no package {package!r}") from None
    except ValueError as error:
        raise StoreUnusable(f"tables of app {app}: {error}") from None
    if not migrations:
        raise StoreUnusable(
            f"tables of app {app}: the package {package} has no folder {folder} with files such as "
            "0001_baseline.sql"
        )
    for migration in migrations:
        if _RESERVED.search(migration.sql):
            raise StoreUnusable(
                f"{migration} creates something in the schema holdfast, or with a name that begins "
                "with holdfast_: those are Holdfast's own"
            )
    return Schema(migrations, app=app)


def _migrations(package: str, folder: str, app: str = "") -> tuple[Migration, ...]:
    found = []
    for number, file in enumerate(sql_files(package, folder), start=1):
        named = _FILE.fullmatch(file.name)
        if named is None or int(named[1]) != number:
            raise ValueError(f"{folder}/{file.name} must be called {number:04d}_name.sql")
        found.append(Migration(number, named[2], file.read_text(encoding="utf-8"), app))
    return tuple(found)


def newest(recorded: Recorded) -> int:
    """Return the newest version applied, 0 where there is none."""
    return max(recorded, default=0)


def checksum(text: str) -> str:
    """Return the SHA-256 of `text` in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
