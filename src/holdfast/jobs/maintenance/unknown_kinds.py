"""Find kinds of waiting jobs that no live worker knows: nothing will run those jobs.

A worker that starts or restarts is missing for a moment, so a kind is reported only if two rounds
in a row find it. It is reported once, and again only after it was known or its jobs were gone.
"""

import logging
from collections.abc import Sequence

from holdfast.events import Listener, notify
from holdfast.jobs.job_events import KindWithoutWorker
from holdfast.jobs.store_port import MaintenanceStore

_log = logging.getLogger("holdfast.maintenance")


class UnknownKinds:
    """Report kinds of waiting jobs that no registered worker knows.

    Args:
        worker_id: the worker that looks for them.
    """

    name = "unknown kinds"

    def __init__(
        self,
        store: MaintenanceStore,
        worker_id: str,
        *,
        interval: float,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.interval = interval
        self._store = store
        self._worker_id = worker_id
        self._listeners = listeners
        self._found: set[str] = set()
        self._reported: set[str] = set()

    async def round(self) -> int:
        """Report the kinds that were found twice in a row; return how many are unknown now."""
        waiting = await self._store.unknown_kinds(self._worker_id)
        self._reported &= waiting.keys()
        for kind in sorted((waiting.keys() & self._found) - self._reported):
            _log.warning(
                "%d jobs of the kind %s wait, and no live worker knows it: start a worker with "
                "the app that declares it", waiting[kind], kind, extra={"kind": kind},
            )  # fmt: skip
            notify(self._listeners, KindWithoutWorker(kind, waiting[kind]))
            self._reported.add(kind)
        self._found = set(waiting)
        return len(waiting)
