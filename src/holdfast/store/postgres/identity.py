"""Tell whether a caller's connection is one to the store's own database."""

from typing import Any

from holdfast.store.joining import Joined
from holdfast.store.postgres.connection import SQL, Database

_Id = tuple[Any, ...]


class Identity:
    """Which database the store is on: the cluster's own number, and the database's in it.

    Neither goes with a dump or a copy, as anything kept in a table would.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._own: _Id | None = None

    async def check(self, joined: Joined) -> None:
        """Refuse a transaction of another database: its jobs would be seen by nobody.

        One more round trip on the caller's connection, and nothing there is spoilt by a refusal.

        Raises:
            TypeError: it is one.
        """
        theirs = tuple((await joined.execute(SQL["identity"], {}))[0])
        if theirs == self._own:
            return
        # Not read before, or the server was replaced while the store was open.
        self._own = tuple((await self._database.rows("identity"))[0])
        if theirs != self._own:
            raise TypeError(
                f"connection= is one to another database than {self._database.where}: only a "
                "transaction of the same database can hold the jobs too"
            )
