"""A counter to wait for, across threads and event loops. Wake-ups are hints: polling is correct."""

import asyncio
import threading
from collections.abc import Callable


class ChangeCounter:
    """Counts changes. Any thread increments it; any event loop waits for it to change.

    `on_wait` is called whenever a wait begins.
    """

    __slots__ = ("_count", "_lock", "_on_wait", "_waiting")

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def count(self) -> int:
        """The number of increments so far."""
        return self._count

    @property
    def has_waiters(self) -> bool:
        """Whether a task is waiting."""
        return bool(self._waiting)

    def increment(self) -> int:
        """Wake all waiting tasks, and return the new count."""
        with self._lock:
            self._count += 1
            waiting, self._waiting = self._waiting, set()
            count = self._count
        for loop, event in waiting:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # its loop was closed while it waited
                continue
        return count

    async def wait(self, seen: int, timeout: float) -> bool:
        """Wait until the count is not `seen`; False after `timeout` seconds."""
        loop, event = waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if self._count != seen:
                return True
            self._waiting.add(waiter)
        self._on_wait()
        alarm = loop.call_later(timeout, event.set)
        try:
            await event.wait()
        finally:
            alarm.cancel()
            with self._lock:
                self._waiting.discard(waiter)
        return self._count != seen
