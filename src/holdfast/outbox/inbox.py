"""Handle each request once: its id is recorded in the transaction that holds its effect.

    async with connection.transaction():
        if await engine.inbox.first(connection, request_id):
            await connection.execute("UPDATE ...")

A message may come more than once, so a consumer asks this first. Where the effect is not in the
database, such as a call of a paid service, hand the request id to the service as its idempotency
key: the record alone cannot undo a call.
"""

from holdfast.outbox.client import checked_name
from holdfast.outbox.ports import InboxStore

DEFAULT_CONSUMER = "default"


class Inbox:
    """Record the requests that were handled; `engine.inbox`."""

    def __init__(self, store: InboxStore) -> None:
        self._store = store

    async def first(
        self, connection: object, request_id: str, *, consumer: str = DEFAULT_CONSUMER
    ) -> bool:
        """Record a request in the transaction of `connection`; False if it was recorded before.

        Where another transaction is just recording the same request, this waits for its end:
        False if it commits, True if it is rolled back.

        Args:
            connection: the caller's connection or session, of the types that `Engine.enqueue` takes
                as `connection=`.
            consumer: who handles it: consumers with different names handle a request each.

        Raises:
            BadMessage: the id or the name cannot be stored.
            TypeError: the store does not support this type of `connection`.
            ValueError: the connection has no open transaction.
        """
        return await self._store.first_on(
            connection, checked_name("consumer", consumer), checked_name("request_id", request_id)
        )

    def first_now(
        self, connection: object, request_id: str, *, consumer: str = DEFAULT_CONSUMER
    ) -> bool | None:
        """Record a request as `first` does, in the calling thread and on a connection that blocks.

        None, and nothing is recorded, where that cannot be done: use `first`.
        """
        return self._store.first_now(
            connection, checked_name("consumer", consumer), checked_name("request_id", request_id)
        )

    async def handled(self, request_id: str, *, consumer: str = DEFAULT_CONSUMER) -> bool:
        """Say whether a request was handled in a transaction that has committed.

        For a quick look before expensive work; only `first` decides.
        """
        return await self._store.handled(
            checked_name("consumer", consumer), checked_name("request_id", request_id)
        )

    async def delete_handled(self, max_age: float) -> int:
        """Forget requests that were handled `max_age` seconds ago or earlier; return how many.

        A relay does this by itself. A request that comes again after that is handled again.
        """
        total = 0
        while deleted := await self._store.delete_handled(max_age):
            total += deleted
        return total
