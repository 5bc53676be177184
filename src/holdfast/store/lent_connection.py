"""The connection of a handler's transaction on a database server, and how to use it.

A handler gives `ctx.transaction()` a connection or session, or a function that opens one. What was
opened here is closed here, after the transaction has ended.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.worker.threads import HandlerThreads
from holdfast.store.joining import Joined, Row, join
from holdfast.store.transaction_control import Control, control_of

_log = logging.getLogger("holdfast.store")

T = TypeVar("T")

_NEEDS_BLOCKING = (
    "a handler that is not async needs a driver that blocks: give ctx.transaction() a psycopg "
    "connection, an SQLAlchemy Connection or Session, or the function that opens one"
)


class LentConnection:
    """Implements `Joined` for a transaction that is begun and ended here.

    Args:
        source: a connection, a session, or a function that returns one, or a context manager or
            an awaitable for one. A function is called in a thread, as it may block, unless it is
            declared `async`.
        threads: where drivers that block are called.
        blocking: the handler is not async.
    """

    blocks = False

    def __init__(self, source: object, threads: HandlerThreads, *, blocking: bool) -> None:
        self.connection: Any = None
        self._source = source
        self._threads = threads
        self._blocking = blocking
        self._joined: Joined | None = None
        self._control: Control | None = None
        self._exit: Callable[[], Any] | None = None
        self._call: asyncio.Future[Any] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_open = False

    # -- statements ----------------------------------------------------------------------------

    @property
    def database(self) -> str:
        """The name of the database system."""
        assert self._joined is not None
        return self._joined.database

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Run one statement that returns rows, with named parameters (`:name`)."""
        joined: Any = self._joined
        if joined.blocks:
            return await self._in_thread(lambda: joined.fetch(joined.connection, sql, parameters))
        rows: list[Row] = await joined.execute(sql, parameters)
        return rows

    # -- the transaction -----------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the transaction is still open."""
        return self._is_open and self._control is not None and self._control.is_open()

    async def begin(self) -> None:
        """Open the connection, if it is not open, and begin.

        Raises:
            TypeError: it does not belong to a driver that Holdfast knows.
            ContextError: it has an open transaction, or must be awaited by a handler that cannot.
            NoTransaction: it is in autocommit mode.
        """
        self.connection = await self._opened()
        self._control = control = control_of(self.connection)
        if self._blocking and not control.blocks:
            raise ContextError(_NEEDS_BLOCKING)
        self._is_open = True  # before the step: it may be done although it was cancelled
        await self._do(control.begin)
        connection = self.connection
        self._joined = (
            await self._in_thread(lambda: join(connection)) if control.blocks else join(connection)
        )

    async def commit(self) -> None:
        """Commit."""
        assert self._control is not None
        self._is_open = False
        await self._do(self._control.commit)

    async def close(self) -> None:
        """Roll back unless it has ended, and close what was opened here. Harmless if repeated.

        A cancelled caller does not stop it.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._call is not None and not self._call.done():
            await asyncio.wait((self._call,))  # a cancelled call still uses the connection
        try:
            if self.is_open and self._control is not None:
                await self._do(self._control.rollback)
        except Exception as error:
            # The handler's own error matters more, and a server rolls back what is disconnected.
            _log.debug("a transaction could not be rolled back: %s", error)
        finally:
            self._is_open = False
            leave, self._exit = self._exit, None
            if leave is not None:
                await leave()

    # -- opening and closing -------------------------------------------------------------------

    async def _opened(self) -> Any:
        source = self._source
        if not callable(source):
            return source
        opened = source() if _is_declared_async(source) else await self._in_thread(self._open)
        if self._exit is not None:
            return opened
        if self._blocking and hasattr(opened, "__aenter__"):
            raise ContextError(_NEEDS_BLOCKING)
        if hasattr(opened, "__aenter__"):
            connection = await opened.__aenter__()
            self._exit = lambda: opened.__aexit__(None, None, None)
        else:
            connection = await opened
            self._exit = lambda: self._closed(connection)
        return connection

    def _open(self) -> Any:
        """Call the source, and enter what it returns unless that must be awaited.

        This runs in a thread. It sets `_exit` itself: if the caller was cancelled meanwhile, what
        is returned here reaches no one.
        """
        source: Any = self._source
        opened = source()
        if hasattr(opened, "__aenter__") or inspect.isawaitable(opened):
            return opened
        if not hasattr(opened, "__enter__"):
            self._exit = lambda: self._closed(opened)
            return opened
        connection = opened.__enter__()
        self._exit = lambda: self._in_thread(lambda: opened.__exit__(None, None, None))
        return connection

    async def _closed(self, connection: Any) -> None:
        closing = connection.close()
        if inspect.isawaitable(closing):
            await closing

    async def _do(self, step: Callable[[], Awaitable[object] | None]) -> None:
        assert self._control is not None
        if self._control.blocks:
            await self._in_thread(step)
            return
        waiting = step()
        assert waiting is not None
        # Drivers differ in the state of a transaction whose begin was cancelled: it is not.
        self._call = asyncio.ensure_future(waiting)
        await asyncio.shield(self._call)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        self._call = self._threads.start(function).future
        value: T = await asyncio.shield(self._call)
        return value


def _is_declared_async(source: Callable[..., Any]) -> bool:
    """Whether it is an `async def`, also one that `asynccontextmanager` decorates."""
    declared = inspect.unwrap(source)
    return inspect.iscoroutinefunction(declared) or inspect.isasyncgenfunction(declared)
