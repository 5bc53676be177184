"""Check that a caller's connection is to the store's own database."""

import logging
from typing import NamedTuple

from holdfast.store.joining import Joined
from holdfast.store.postgres.connection import SQL, Database

_log = logging.getLogger("holdfast.store")


class DatabaseId(NamedTuple):
    """A database: by its cluster's system identifier and its oid, and by what is cheap to compare.

    The first two are the same for as long as the database exists and, unlike anything kept in a
    table, are not copied by a dump. The others hold until the server is started again.

    Attributes:
        system: where the account may not read the system identifier, `started` and `server_start`.
        server_start: when the server was started, in epoch seconds, as PostgreSQL writes them.
        name: of the database.
    """

    system: str
    oid: str
    server_start: str
    name: str

    def is_same(self, other: "DatabaseId | None") -> bool:
        """Say whether `other` is this database, perhaps after a start of its server."""
        return other is not None and (self.system, self.oid) == (other.system, other.oid)


class Identity:
    """Which database the store is on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._own: DatabaseId | None = None
        self._statement: str | None = None

    @property
    def known(self) -> DatabaseId | None:
        """The identity of the store's database; None before it was read."""
        return self._own

    async def read(self) -> DatabaseId:
        """Read and return the identity of the store's database."""
        self._own = DatabaseId(*(await self._database.rows(await self._chosen()))[0])
        return self._own

    async def _chosen(self) -> str:
        """Return the statement that this account may run; managed services refuse one of them."""
        if self._statement is None:
            ((may_read,),) = await self._database.rows("identity_right")
            self._statement = "identity" if may_read else "identity_by_start"
            if not may_read:
                _log.warning(
                    "the account of %s may not call pg_control_system(): whether a connection of a "
                    "caller is one to the same server is decided by when the server was started. "
                    "During a failover one to the new server may be refused until the store is "
                    "connected to it too", self._database.where,
                )  # fmt: skip
        return self._statement

    async def own(self) -> DatabaseId:
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
        theirs = DatabaseId(*(await joined.execute(SQL[await self._chosen()], {}))[0])
        if theirs.is_same(self._own):
            self._own = theirs  # the server may have been started again
            return
        # Not read before, or the server was replaced while the store was open.
        if not theirs.is_same(await self.read()):
            raise TypeError(
                f"connection= is one to another database than {self._database.where}: only a "
                "transaction of the same database can hold the jobs too"
            )
