"""Wake-ups between processes: LISTEN and NOTIFY, as hints only; polling alone is correct.

A process that made a job claimable wakes its own waiting tasks at once and notifies the other
processes at most every few milliseconds: NOTIFY takes a lock on the whole server at commit. Tasks
that wait for changes are woken by work too, so new work sends no notification of a change as well.
A process listens from the first wait on. After a reconnect it listens first and then wakes its
waiting tasks, so that they look for what was missed. Behind a pooler nothing can listen: there the
waiting tasks are woken at intervals.
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
OUTBOX = "outbox"

_WORK_PAUSE = 0.005
_CHANGES_PAUSE = 0.05
_CHANGES_DELAY = 0.005
"""Seconds between a change and its notification: the claim of a short job and its end are one
notification, and that of a claim is not sent before its handler has started."""
_CLOSING = 1.0
"""Seconds that a close waits for the last notifications: as long as a worker's poll takes."""
_FIRST_RECONNECT = 0.1
_LAST_RECONNECT = 5.0
_POLL_PAUSE = 0.5
"""Seconds between two polls where there is no LISTEN."""


class Signal:
    """A counter whose change can be waited for on the store's event loop."""

    __slots__ = ("_changed", "count")

    def __init__(self) -> None:
        self.count = 0
        self._changed: asyncio.Event | None = None  # there is one while tasks wait

    def send(self) -> None:
        """Wake all waiting tasks."""
        self.count += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def renew(self) -> None:
        """Serve another event loop from now on."""
        self._changed = None

    async def wait(self, seen: int, timeout: float) -> bool:
        """Wait until the count is no longer `seen`; False after `timeout` seconds."""
        if self.count != seen:
            return True
        changed = self._changed = self._changed or asyncio.Event()
        try:
            async with asyncio.timeout(timeout):
                await changed.wait()
        except TimeoutError:
            return False
        return True


class _Notification:
    """A recurring notification of other processes.

    Args:
        payload: what is sent.
        delay: seconds between the first request and the notification.
        pause: least seconds between two notifications.
    """

    def __init__(
        self, payload: str, delay: float, pause: float, database: Database, clock: Clock
    ) -> None:
        self.payload = payload
        self._delay = delay
        self._pause = pause
        self._database = database
        self._clock = clock
        self._pending = asyncio.Event()
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether it could be sent now, and is not about to be."""
        return not self._pending.is_set() and self._clock.monotonic() >= self._next

    def request(self) -> None:
        """Send it after the delay and the pause, once for all requests until then."""
        self._pending.set()

    def sent(self) -> None:
        """Begin a pause."""
        self._next = self._clock.monotonic() + self._pause

    async def send_requested(self) -> None:
        """Send what is requested, forever."""
        while True:
            await self._pending.wait()
            rest = max(self._delay, self._next - self._clock.monotonic())
            if rest > 0:
                await self._clock.sleep_async(rest)
            await self.send_pending()

    async def send_pending(self) -> None:
        """Send what is requested, if anything is, without delay; an outage drops it."""
        if not self._pending.is_set():
            return
        self._pending.clear()
        self.sent()  # from its beginning on: `due` must not permit a second one meanwhile
        try:
            with contextlib.suppress(StoreError):
                await self._database.rows("notify", payload=self.payload)
        except asyncio.CancelledError:
            self._pending.set()  # it may not have been sent
            raise
        self.sent()


class Notifier:
    """Wakes the tasks of this process, and through the database those of other processes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.work = Signal()
        self.changes = Signal()
        self.messages = Signal()
        self._database = database
        self._clock = clock
        self._name = secrets.token_hex(4)
        self._tasks: list[asyncio.Task[None]] = []
        self._listening = False
        self._renew_notifications()

    def _renew_notifications(self) -> None:
        self._new_work = self._notification(WORK, 0.0, _WORK_PAUSE)
        self._other_changes = self._notification(CHANGES, _CHANGES_DELAY, _CHANGES_PAUSE)

    def _notification(self, what: str, delay: float, pause: float) -> _Notification:
        payload = f"{what} {self._name}"
        return _Notification(payload, delay, pause, self._database, self._clock)

    def start(self) -> None:
        """Begin to notify other processes."""
        # New objects: this may be another event loop than the last time.
        self._renew_notifications()
        self._tasks, self._listening = [], False
        self.work.renew()
        self.changes.renew()
        self.messages.renew()
        self._tasks += [
            asyncio.create_task(self._new_work.send_requested()),
            asyncio.create_task(self._other_changes.send_requested()),
        ]

    async def close(self) -> None:
        """Send what is pending, within a second, and stop notifying and listening."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._listening = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await self._new_work.send_pending()
                await self._other_changes.send_pending()

    def work_payload(self) -> str | None:
        """Return what a transaction that creates work may send with its commit; None for nothing.

        It saves the round trip of a notification of its own.
        """
        return self._new_work.payload if self._new_work.due else None

    def changed(self, *, work: bool, notified: bool = False) -> None:
        """Say that something was written.

        Args:
            work: it may be claimable.
            notified: the notification of it was sent with its commit.
        """
        self.changes.send()
        if not work:
            self._other_changes.request()
            return
        self.work.send()
        if notified:
            self._new_work.sent()
        else:
            self._new_work.request()

    async def wait_for_work(self, mark: int, timeout: float) -> bool:
        """Wait until there may be work since the count was `mark`."""
        self._start_listening()
        return await self.work.wait(mark, timeout)

    async def wait_for_changes(self, mark: int, timeout: float) -> bool:
        """Wait until there may be events since the count was `mark`."""
        self._start_listening()
        return await self.changes.wait(mark, timeout)

    async def wait_for_messages(self, mark: int, timeout: float) -> bool:
        """Wait until the outbox may hold messages since the count was `mark`."""
        self._start_listening()
        return await self.messages.wait(mark, timeout)

    def _start_listening(self) -> None:
        if not self._listening:
            self._listening = True
            work = self._poll() if self._database.pooled else self._listen()
            self._tasks.append(asyncio.create_task(work))

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

    async def _poll(self) -> None:
        while True:
            await self._clock.sleep_async(_POLL_PAUSE)
            self._send_all()

    async def _listen_on(self, connection: Any) -> None:
        """Listen until the connection is gone."""
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        await connection.add_listener(CHANNEL, self._on_notification)
        self._send_all()
        await gone.wait()

    def _send_all(self) -> None:
        for signal in (self.work, self.changes, self.messages):
            signal.send()

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        what, _, sender = payload.partition(" ")
        if sender == self._name:
            return
        if what == OUTBOX:
            self.messages.send()
            return
        self.changes.send()
        if what == WORK:
            self.work.send()
