"""Report a store outage once when it begins and once when it ends."""

import logging
import threading
from collections.abc import Sequence

from holdfast.clock import Clock
from holdfast.events import Listener, notify
from holdfast.jobs.job_events import StoreBack, StoreLost

_log = logging.getLogger("holdfast.worker")


class Outage:
    """Track which parts of a worker cannot reach the store. Thread-safe.

    The outage begins with the first failing part and ends when all parts reach the store again.
    """

    def __init__(self, name: str, clock: Clock, listeners: Sequence[Listener]) -> None:
        self._name = name
        self._clock = clock
        self._listeners = listeners
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._since = 0.0

    @property
    def lasts(self) -> bool:
        """Whether some part cannot reach the store."""
        return bool(self._failing)

    def lost(self, part: str, error: BaseException) -> None:
        """Record that `part` could not reach the store."""
        with self._lock:
            begins = not self._failing
            self._failing.add(part)
            if begins:
                self._since = self._clock.monotonic()
        if begins:
            _log.warning("%s: the store does not answer, waiting for it: %s", self._name, error)
            notify(self._listeners, StoreLost(self._name, str(error)))

    def back(self, part: str) -> None:
        """Record that `part` reached the store, or no longer tries to."""
        if part not in self._failing:
            return
        with self._lock:
            self._failing.discard(part)
            ends = not self._failing
            seconds = self._clock.monotonic() - self._since
        if ends:
            _log.warning("%s: the store answers again after %.1f s", self._name, seconds)
            notify(self._listeners, StoreBack(self._name, seconds))
