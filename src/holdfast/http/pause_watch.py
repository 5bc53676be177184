"""Notice that a queue or a kind was paused or resumed, with one read for all open streams."""

from holdfast.jobs.control_port import PauseScope
from holdfast.jobs.engine import StoreEngine

_READ_EVERY = 1.0
"""Seconds between two reads of the pauses, however many streams ask."""


class PauseWatch:
    """What is paused in the store of `engine`, at most a second old."""

    def __init__(self, engine: StoreEngine) -> None:
        self._engine = engine
        self._read_at: float | None = None
        self._paused: frozenset[tuple[PauseScope, str]] = frozenset()

    async def paused(self) -> frozenset[tuple[PauseScope, str]]:
        """Return the scopes and names that are paused."""
        now = self._engine.clock.monotonic()
        if self._read_at is None or now >= self._read_at + _READ_EVERY:
            # Noted before the read: streams that ask meanwhile use what is known.
            self._read_at = now
            found = await self._engine.store.pauses()
            self._paused = frozenset((pause.scope, pause.name) for pause in found)
        return self._paused
