"""Check that a caller's connection is to the store's own database."""

from typing import Any

from holdfast.store.joining import Joined
from holdfast.store.postgres.connection import SQL, Database

_Id = tuple[Any, ...]


class Identity:
    """Which database the store is on: the system identifier of the cluster, and the database's oid.

    Unlike anything kept in a table, neither is copied by a dump.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._own: _Id | None = None

    async def read(self) -> _Id:
        """Read and return the identity of the store's database."""
        self._own = tuple((await self._database.rows("identity"))[0])
        return self._own

    async def own(self) -> _Id:
        """Return the identity of the store's database, which is known once the store is open."""
        return self._own or await self.read()

    async def check(self, joined: Joined) -> None:
        """Refuse a transaction of another database: no worker would see its jobs.

        One more round trip on the caller's connection; a refusal leaves the transaction usable.

        Raises:
            TypeError: it is of another database.
        """
        if joined.database != "postgresql":
            raise TypeError(
                f"this connection is one to {joined.database}, but the store is on PostgreSQL"
            )
        theirs = tuple((await joined.execute(SQL["identity"], {}))[0])
        if theirs == self._own:
            return
        # Not read before, or the server was replaced while the store was open.
        if theirs != await self.read():
            raise TypeError(
                f"connection= is one to another database than {self._database.where}: only a "
                "transaction of the same database can hold the jobs too"
            )
