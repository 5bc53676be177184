"""The schema that this release ships for a dialect, and what a database lacks of it.

Migrations are append-only: each is applied once, in order, and recorded with the checksum of its
text. Functions, where a dialect has them, are replaced as a whole whenever their text has changed.
A release works with the schema that it ships and with the next one, so that workers of both can run
while a fleet is updated; it never puts its own functions back into the newer schema.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.sql_files import sql_files

Recorded = Mapping[int, str]
"""What a database says was applied: checksums by version, that of the functions as `FUNCTIONS`."""

FUNCTIONS = 0
"""The version that the functions are recorded as; migrations begin with 1."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: `0001_baseline.sql` is version 1, named baseline."""

    version: int
    name: str
    sql: str

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
        named = [f"migration {each.version} ({each.name})" for each in self.migrations]
        return ", ".join([*named, *(["the functions of this release"] if self.functions else [])])


@dataclass(frozen=True, slots=True)
class Schema:
    """What a release ships: all migrations in their order, and the functions as one text."""

    migrations: tuple[Migration, ...]
    functions: str = ""

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
        if current > self.version + 1:
            raise StoreUnusable(
                f"the database has schema version {current}, but this Holdfast works with versions "
                f"{self.version} and {self.version + 1}: upgrade Holdfast, or let it use another "
                "database, such as a backup from before the migration"
            )
        for migration in self.migrations:
            applied = recorded.get(migration.version, migration.checksum)
            if applied != migration.checksum:
                raise StoreUnusable(
                    f"migration {migration.version} ({migration.name}) was applied to this "
                    f"database with another text (checksum {applied[:12]}) than this Holdfast "
                    f"ships ({migration.checksum[:12]}): use the Holdfast that migrated the "
                    "database, or a new database"
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
            current = newest(recorded)
            found = f"has schema version {current}" if current else "has no Holdfast schema"
            raise StoreUnusable(
                f"the database {found}, this Holdfast needs {self.version} and misses {missing}: "
                "run: holdfast migrate"
            )


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
    migrations = []
    for file in sql_files(package, "migrations"):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        migrations.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    functions = [file.read_text(encoding="utf-8") for file in sql_files(package, "functions")]
    return Schema(tuple(migrations), "\n".join(functions))


def newest(recorded: Recorded) -> int:
    """Return the newest version applied, 0 where there is none."""
    return max(recorded, default=0)


def checksum(text: str) -> str:
    """Return the SHA-256 of `text` in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
