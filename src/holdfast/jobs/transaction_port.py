"""What a store does for `ctx.transaction()`: commit a handler's rows with its job's completion."""

from typing import Protocol

from holdfast.jobs.model import Finished, Lease
from holdfast.jobs.store_values import TickResult


class AttemptTransaction(Protocol):
    """One transaction of one attempt. Await its methods on the event loop of the store."""

    async def begin(self, *, blocking: bool = False) -> object:
        """Begin, and return the connection, session or `DatabaseTransaction` for the handler.

        Args:
            blocking: the handler does not run on an event loop, so it needs a driver that blocks.

        Raises:
            ContextError: the connection cannot be used here; the message says why.
            TypeError: the connection is not supported; the message lists the supported types.
            LostLease: the lease is no longer valid.
            StoreUnavailable: the store cannot be reached, or is locked.
        """
        ...

    async def complete(self, finished: Finished, *, now: float | None = None) -> TickResult:
        """Write the completion `finished`, with its `jobs`, as a tick writes it, and commit.

        If the completion is refused or overruled, as the result says, all is rolled back. Where
        another exception than those below is raised, it may have been committed: then the store
        refuses another report under the same lease.

        Raises:
            ContextError: the transaction was ended meanwhile, not by this object.
            TransactionTooLong: it was rolled back before.
        """
        ...

    def explain(self, error: BaseException) -> Exception | None:
        """Return what the driver's `error` inside the block really means; None: what it says.

        A transaction that was ended under the handler makes its next statement fail, with an error
        that does not say so. Called from any thread, before `rollback`.
        """
        ...

    async def rollback(self) -> None:
        """Roll back unless it is committed, and release the connection. Harmless if repeated."""
        ...


class TransactionStore(Protocol):
    """Serve handlers that change their own rows."""

    def transaction(
        self, lease: Lease, source: object = None, *, seconds: float = 3.0
    ) -> AttemptTransaction:
        """Return a transaction, not begun yet, that also completes the job of `lease`.

        Args:
            source: the caller's own connection or session, or a function that opens one; None:
                a connection that the store opens. With the store's `database` the handler gets a
                `DatabaseTransaction` without a connection, and can use it until the end.
            seconds: how long it may hold a lock that keeps all others from writing, if the store
                has such a lock.
        """
        ...
