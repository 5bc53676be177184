"""A database of either kind in which a program keeps its own orders beside the outbox."""

from contextlib import asynccontextmanager

import apsw
import asyncpg
import pytest

from holdfast.bootstrap import Engine


class MessageDatabase:
    """A database of an engine; `transaction` is the program's own."""

    def __init__(self, url):
        self.url = url

    def engine(self, apps=()):
        """Return an engine on it, not open yet."""
        return Engine(self.url, apps)

    @asynccontextmanager
    async def transaction(self):
        """Yield a connection in a transaction, which is rolled back after an exception."""
        if self.url.startswith("sqlite"):
            connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
            try:
                connection.set_busy_timeout(60_000)
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    yield connection
                connection.execute("COMMIT" if connection.in_transaction else "SELECT 1")
            finally:
                connection.close()
            return
        connection = await asyncpg.connect(self.url)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    async def add(self, engine, *aggregates, message_type="order.placed"):
        """Add one message for each of `aggregates` in one transaction, and return their ids."""
        async with self.transaction() as connection:
            return [
                await engine.outbox.add(connection, aggregate, message_type, {"at": place})
                for place, aggregate in enumerate(aggregates)
            ]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """A new database; a folder that uses it must have the fixtures of `tests.support.postgres`."""
    if request.param == "sqlite":
        return MessageDatabase(f"sqlite:///{tmp_path}/messages.db")
    return MessageDatabase(request.getfixturevalue("postgres_url"))
