"""Store the counters every few minutes, so that rates of the last hour and day can be computed."""

from collections import Counter

from holdfast.jobs.operations_port import CounterMark
from holdfast.jobs.store_port import Store

KEPT = 25 * 3600.0
"""Seconds that marks are kept for: a day, and an hour more."""


class CounterMarks:
    """Write a `CounterMark` at every round."""

    name = "counter_marks"

    def __init__(self, store: Store, *, interval: float) -> None:
        self.interval = interval
        self._store = store

    async def round(self) -> int:
        """Store a mark unless another leader has just done so; return how many."""
        now = await self._store.ping()
        if await self._store.marks(now - self.interval / 2):
            return 0
        stats = await self._store.stats()
        ready: Counter[str] = Counter()
        for lane in stats.lanes:
            ready[lane.queue] += lane.ready
        outcomes = tuple(
            (each.kind, str(each.status), each.attempts, each.count) for each in stats.outcomes
        )
        await self._store.add_mark(CounterMark(now, outcomes, ready), keep_from=now - KEPT)
        return 1
