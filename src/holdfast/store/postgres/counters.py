"""Fold the counters now and then: every write appends deltas, and a reader adds them all."""

import logging

from holdfast.jobs.store_port import StoreError
from holdfast.store.postgres.connection import Database

_log = logging.getLogger("holdfast.store")

_FOLD_EVERY = 64
"""Writes between two folds."""
FAILED_FOLDS = "failed_folds"
"""The total that counts the folds that failed."""


class Counters:
    """Folds the counters of one database. A fold that fails loses nothing: it is tried again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written = 0
        self._failing = False
        self._uncounted = 0

    async def wrote(self) -> None:
        """Note a write; fold after every 64th."""
        self._written += 1
        if self._written % _FOLD_EVERY == 0:
            await self.fold()

    async def fold(self) -> None:
        """Fold; a failure is counted, and logged if the fold before it did not fail."""
        try:
            await self._database.write("count_fold")
        except StoreError as error:
            if not self._failing:
                _log.warning("the counters cannot be folded, reading them gets slower: %s", error)
            self._failing = True
            self._uncounted += 1
        else:
            self._failing = False
        if self._uncounted:
            await self._count_failures()

    async def _count_failures(self) -> None:
        """Count the failed folds, or keep the number until the store can be reached."""
        number, self._uncounted = self._uncounted, 0
        try:
            await self._database.write("count_total", name=FAILED_FOLDS, number=number)
        except StoreError:
            self._uncounted += number
