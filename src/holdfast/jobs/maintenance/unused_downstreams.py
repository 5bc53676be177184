"""Delete the records of keyed downstreams, such as one for each host, that nothing uses."""

from collections.abc import Iterable

from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.store_port import DownstreamStore


class UnusedDownstreams:
    """Look at one page of records in each round, so that its cost does not grow with their number.

    Args:
        interval: seconds between two rounds.
        batch: records of one downstream that a round looks at, and deletes at most.
    """

    name = "unused_downstreams"

    def __init__(
        self,
        store: DownstreamStore,
        kinds: Iterable[JobKind],
        *,
        interval: float,
        batch: int = 500,
    ) -> None:
        self.interval = interval
        self._store = store
        self._batch = batch
        declared = (kind.downstream for kind in kinds)
        self._after = {
            downstream.name: ""
            for downstream in declared
            if downstream is not None and downstream.key is not None
        }

    async def round(self) -> int:
        """Delete the unused records of the next page; return how many."""
        total = 0
        for name, after in self._after.items():
            deleted, last = await self._store.delete_unused_downstreams(
                name, after=after, limit=self._batch
            )
            self._after[name] = last or ""
            total += deleted
        return total
