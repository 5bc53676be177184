"""Store which kinds have no dead letters: workers of other apps may end their jobs too."""

from collections.abc import Iterable

from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.store_port import MaintenanceStore


class DeadLetterKinds:
    """Declare for each of `kinds` whether its jobs can become dead letters.

    While workers with both declarations of a kind run, the last round of either holds.

    Args:
        interval: seconds between two rounds.
    """

    name = "dead_letter_kinds"

    def __init__(
        self, store: MaintenanceStore, kinds: Iterable[JobKind], *, interval: float
    ) -> None:
        self.interval = interval
        self._store = store
        self._kinds = {name: kind.dead_letters for kind in kinds for name in kind.names}

    async def round(self) -> int:
        """Store what has changed; return how many kinds."""
        return await self._store.declare_dead_letters(self._kinds)
