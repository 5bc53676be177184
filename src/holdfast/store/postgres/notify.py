"""Wake-ups between processes: LISTEN and NOTIFY, as hints only; polling alone is correct.

A process that made something claimable rings its own bell at once and tells the others a moment
later, at most every few milliseconds however much it writes: NOTIFY takes a lock on the whole
server at commit. A process listens from the first time that somebody in it waits. After a
reconnect it listens first and rings then, so that whoever waits looks for what was missed.
"""

import asyncio
import contextlib
import secrets
from typing import Any

from holdfast.clock import Clock
from holdfast.jobs.store_port import StoreError
from holdfast.store.postgres.connection import DRIVER_ERRORS, Database

CHANNEL = "holdfast"
WORK = "work"
CHANGES = "changes"

_WORK_PAUSE = 0.005
_CHANGES_PAUSE = 0.05
_FIRST_RECONNECT = 0.1
_LAST_RECONNECT = 5.0


class Bell:
    """A counter that can be waited for on the store's event loop."""

    __slots__ = ("_rung", "rings")

    def __init__(self) -> None:
        self.rings = 0
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake everybody who waits."""
        self.rings += 1
        self._rung.set()
        self._rung = asyncio.Event()

    def renew(self) -> None:
        """Serve another event loop from now on."""
        self._rung = asyncio.Event()

    async def wait(self, seen: int, timeout: float) -> bool:
        """Wait until it rang more often than `seen`; False after `timeout` seconds."""
        if self.rings != seen:
            return True
        try:
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        except TimeoutError:
            return False
        return True


class Notifier:
    """Rings the bells of this process, and through the database those of the others."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.work = Bell()
        self.changes = Bell()
        self._database = database
        self._clock = clock
        self._name = secrets.token_hex(4)
        self._tasks: list[asyncio.Task[None]] = []
        self._listening = False
        self._work_to_tell = asyncio.Event()
        self._changes_to_tell = asyncio.Event()

    def start(self) -> None:
        """Begin to tell others."""
        # Anew, for this may be another event loop than the last time.
        self._work_to_tell, self._changes_to_tell = asyncio.Event(), asyncio.Event()
        self._tasks, self._listening = [], False
        self.work.renew()
        self.changes.renew()
        self._tasks += [
            asyncio.create_task(self._tell(WORK, self._work_to_tell, _WORK_PAUSE)),
            asyncio.create_task(self._tell(CHANGES, self._changes_to_tell, _CHANGES_PAUSE)),
        ]

    async def close(self) -> None:
        """Tell nobody any more, and stop listening."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._listening = False

    def changed(self, *, work: bool) -> None:
        """Say that something was written; `work` says that it may be claimable."""
        self.changes.ring()
        self._changes_to_tell.set()
        if work:
            self.work.ring()
            self._work_to_tell.set()

    async def wait_for_work(self, mark: int, timeout: float) -> bool:
        """Wait until there may be work since `mark` rings."""
        self._listen_from_now_on()
        return await self.work.wait(mark, timeout)

    async def wait_for_changes(self, mark: int, timeout: float) -> bool:
        """Wait until there may be events since `mark` rings."""
        self._listen_from_now_on()
        return await self.changes.wait(mark, timeout)

    def _listen_from_now_on(self) -> None:
        if not self._listening:
            self._listening = True
            self._tasks.append(asyncio.create_task(self._listen()))

    async def _tell(self, what: str, to_tell: asyncio.Event, pause: float) -> None:
        """Tell the others, once for all that happened during the last pause."""
        while True:
            await to_tell.wait()
            to_tell.clear()
            with contextlib.suppress(StoreError):
                await self._database.rows("notify", payload=f"{what} {self._name}")
            await self._clock.sleep_async(pause)

    async def _listen(self) -> None:
        pause = _FIRST_RECONNECT
        while True:
            with contextlib.suppress(StoreError, *DRIVER_ERRORS):
                connection = await self._database.connect()
                try:
                    await self._listen_on(connection)
                    pause = _FIRST_RECONNECT
                finally:
                    with contextlib.suppress(Exception):
                        await connection.close(timeout=1)
            await self._clock.sleep_async(pause)
            pause = min(2 * pause, _LAST_RECONNECT)

    async def _listen_on(self, connection: Any) -> None:
        """Listen until the connection is gone."""
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        await connection.add_listener(CHANNEL, self._heard)
        self.work.ring()
        self.changes.ring()
        await gone.wait()

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        what, _, sender = payload.partition(" ")
        if sender == self._name:
            return
        self.changes.ring()
        if what == WORK:
            self.work.ring()
