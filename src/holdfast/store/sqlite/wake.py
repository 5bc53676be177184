"""Wake-ups across threads and event loops: hints that something happened."""

import asyncio
import threading
from collections.abc import Callable


class Bell:
    """A counter that can be waited for. Any thread rings; any event loop waits."""

    __slots__ = ("_lock", "_on_wait", "_rings", "_waiting")

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._lock = threading.Lock()
        self._rings = 0
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def rings(self) -> int:
        """How often it rang."""
        return self._rings

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits for it."""
        return bool(self._waiting)

    def ring(self) -> int:
        """Wake everybody who waits, and return how often it rang by now."""
        with self._lock:
            self._rings += 1
            waiting, self._waiting = self._waiting, set()
            rings = self._rings
        for loop, event in waiting:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # its loop was closed while it waited
                continue
        return rings

    async def wait(self, seen: int, timeout: float) -> bool:
        """Wait until it rang more often than `seen`; False after `timeout` seconds."""
        loop, event = waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if self._rings != seen:
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
        return self._rings != seen
