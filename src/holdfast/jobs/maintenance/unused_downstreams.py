"""Delete the records of keyed downstreams, such as one for each host, that nothing uses."""

from collections.abc import Iterable

from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.store_port import DownstreamStore


class UnusedDownstreams:
    """Delete, in batches, what was not used for two days of the downstreams that `kinds` declare.

    Args:
        interval: seconds between two rounds.
        batch: records that are looked at and deleted at once.
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
        self._names = sorted({each.name for each in declared if each is not None and each.key})

    async def round(self) -> int:
        """Delete the records that nothing uses; return how many.

        A batch in which all records have jobs ends the round; the next one goes on after them.
        """
        total = 0
        for name in self._names:
            while deleted := await self._store.delete_unused_downstreams(name, limit=self._batch):
                total += deleted
        return total
