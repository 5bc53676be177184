"""A pool of connections, opened as they are needed, up to a limit.

asyncpg's own pool creates a task for every release, which costs more than a short statement, and
reconnects without end while the server is away. A connection whose statement was cut short is
closed: the statement may still be running.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import asyncpg

from holdfast.clock import SYSTEM_CLOCK, Clock

# asyncpg has no types of its own; this says what is meant.
Connection: TypeAlias = Any

_IDLE = 300.0
"""Seconds after which an idle connection is not used again: a firewall may have dropped it."""


class ConnectionPool:
    """Connections of one event loop.

    Args:
        connect: opens one.
        most: how many there may be at once.
        clock: tells how long one was idle.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        most: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._connect = connect
        self._most = most
        self._open = 0
        self._idle: list[tuple[float, Connection]] = []
        self._lent: set[Connection] = set()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._monotonic = clock.monotonic
        self._closed = False
        self._all_back = asyncio.Event()

    def take(self) -> Connection | None:
        """Borrow a connection that is idle; None where there is none."""
        while self._idle:
            since, connection = self._idle.pop()
            if not connection.is_closed() and self._monotonic() - since < _IDLE:
                self._lent.add(connection)
                return connection
            self._drop(connection)
        return None

    async def acquire(self) -> Connection:
        """Borrow a connection: an idle one, a new one, or the next that is returned.

        Raises:
            asyncpg.InterfaceError: the pool is closed.
        """
        while True:
            self._check_open()
            connection = self.take()
            if connection is None:
                connection = await (self._new() if self._open < self._most else self._next())
            if connection is not None:
                return connection

    def release(self, connection: Connection, *, whole: bool) -> None:
        """Return a connection to the pool; `whole` says that it can be used again."""
        self._lent.discard(connection)
        if not whole or connection.is_closed():
            self._drop(connection)
            self._hand_on(None)
        elif not self._hand_on(connection):
            self._idle.append((self._monotonic(), connection))
        if not self._lent:
            self._all_back.set()

    async def close(self) -> None:
        """Wait until all connections are returned, and disconnect."""
        self._closed = True
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
        while self._lent:
            self._all_back.clear()
            await self._all_back.wait()
        while self._idle:
            _, connection = self._idle.pop()
            await connection.close()

    def terminate(self) -> None:
        """Cut all connections, also those in use."""
        self._closed = True
        for connection in (*self._lent, *(connection for _, connection in self._idle)):
            connection.terminate()

    def _check_open(self) -> None:
        if self._closed:
            raise asyncpg.InterfaceError("the pool is closed")

    async def _new(self) -> Connection:
        self._open += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._open -= 1
            self._hand_on(None)
            raise
        self._lent.add(connection)
        if self._closed:
            self.release(connection, whole=False)
            self._check_open()
        return connection

    async def _next(self) -> Connection | None:
        """Wait for a connection; None where there is room for a new one instead."""
        waiting: asyncio.Future[Connection | None] = self._loop.create_future()
        self._waiting.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                # A connection arrived in the moment of the cancellation.
                connection = waiting.result()
                if connection is None:
                    self._hand_on(None)
                else:
                    self.release(connection, whole=True)
            raise

    def _hand_on(self, connection: Connection | None) -> bool:
        """Pass a connection, or the room for one, to the caller that has waited longest."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                if connection is not None:
                    self._lent.add(connection)
                waiting.set_result(connection)
                return True
        return False

    def _drop(self, connection: Connection) -> None:
        self._open -= 1
        connection.terminate()
