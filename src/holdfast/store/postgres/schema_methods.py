"""The methods of the store that deal with its schema, and with the tables of apps."""

import contextlib
from collections.abc import AsyncIterator

from holdfast.store.migrations import Missing, Schema, app_schema, newest
from holdfast.store.postgres import migrations
from holdfast.store.postgres.connection import Database


class SchemaMethods:
    """Implements `Migratable`, and the tables of `DatabaseStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._app_schemas: list[Schema] = []

    def use_tables(self, app: str, package: str) -> None:
        """Also require the tables of `app`; `holdfast migrate` creates and migrates them."""
        self._app_schemas.append(app_schema(app, package, "postgres"))

    async def _check_schema(self, *, migrates: bool) -> None:
        """Bring the schema up to date if `migrates`, and refuse one that cannot be used."""
        if migrates:
            await migrations.migrate(self._database, apps=self._app_schemas)
        async with self._database.connection() as connection:
            await migrations.check_usable(connection, self._app_schemas)

    async def schema_version(self) -> int:
        """Return the number of the last migration that was applied."""
        async with self._database.connection() as connection:
            return newest(await migrations.recorded(connection))

    async def migrate(self) -> tuple[int, ...]:
        """Bring the schema up to date and return the versions that were missing.

        The store need not be open. Opening it with `migrate=True`, as `holdfast migrate` does, has
        the same effect.
        """
        async with self._connected():
            return await migrations.migrate(self._database, apps=self._app_schemas)

    async def missing(self) -> Missing:
        """Return what the schema lacks; the store need not be open."""
        async with self._connected(), self._database.connection() as connection:
            return await migrations.missing_from(connection, apps=self._app_schemas)

    async def migration_script(self) -> str:
        """Return the SQL that `migrate` would run, as one transaction; "" for none."""
        return migrations.script(migrations.SCHEMA, await self.missing())

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        await self._database.open()
        try:
            yield
        finally:
            await self._database.close()
