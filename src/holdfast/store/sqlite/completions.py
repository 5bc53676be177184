"""Write the ends that nearly all attempts come to: completions, many in a few statements."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from holdfast.jobs.model import Completed, Finished
from holdfast.store.sqlite.transaction import (
    Claimed,
    Misremembered,
    Transaction,
    as_json,
    as_numbers,
)
from holdfast.store.text import clean_or_none

_Completion = tuple[int, int, str | None, float, str | None, int, str, float]
"""Seq, token, result, duration and meta, which are a row of `finish_complete`; then the attempt's
number, its worker, and when it started."""


class Completions:
    """The completions of one tick. `from_memory` says that some were not read in this tick."""

    __slots__ = ("_counts", "_rows", "_tx", "from_memory")

    def __init__(self, tx: Transaction) -> None:
        self.from_memory = False
        self._tx = tx
        self._rows: list[_Completion] = []
        self._counts: Counter[tuple[int, str, int]] = Counter()

    @property
    def seqs(self) -> set[int]:
        """The jobs they complete."""
        return {row[0] for row in self._rows}

    def add(self, item: Finished, outcome: Completed, claimed: Claimed) -> None:
        """Add one that no deadline has overtaken."""
        seq, token, lane, kind, attempt, worker_id, started_at = claimed
        duration = item.duration
        if duration is None:
            duration = max(0.0, self._tx.now - started_at)
        result, meta = clean_or_none(outcome.result), clean_or_none(item.meta)
        self._rows.append((seq, token, result, duration, meta, attempt, worker_id, started_at))
        self._counts[lane, kind, attempt] += 1

    def write(self) -> None:
        """Move the jobs to complete, with their history and counters.

        Raises:
            Misremembered: some job is not as it was remembered.
        """
        if not self._rows:
            return
        _, token, result, _, _, attempt, worker_id, _ = self._rows[0]
        first = (token, result, None, attempt, worker_id)
        if all((t, r, m, a, w) == first for _, t, r, _, m, a, w, _ in self._rows):
            self._write_alike(token, result, attempt, worker_id)
        else:
            given = {"rows": as_json([row[:5] for row in self._rows]), "now": self._tx.now}
            self._change_all("finish_complete_ends", given)
            self._change_all("finish_complete", given)
        for (lane, kind, attempts), count in self._counts.items():
            self._tx.move_count(lane, "processing", "complete", count)
            self._tx.count_outcome(kind, "complete", attempts, count)

    def _write_alike(self, token: int, result: str | None, attempt: int, worker_id: str) -> None:
        """Write completions that differ in nothing but their jobs and times."""
        which = {"token": token, "now": self._tx.now}
        seqs = as_numbers([row[0] for row in self._rows])
        # Before their history: a token that has ended already is found out here.
        self._change_all("finish_complete_alike", {"seqs": seqs, "result": result, **which})
        times = as_json([(seq, duration, at) for seq, _, _, duration, _, _, _, at in self._rows])
        given = {"rows": times, "attempt": attempt, "worker": worker_id, **which}
        self._tx.change_exactly(len(self._rows), "finish_complete_ends_alike", given)

    def _change_all(self, query: str, given: Mapping[str, Any]) -> None:
        """Run the named `query`, which must touch one row a completion."""
        touched = self._tx.change(query, given)
        if touched != len(self._rows):
            what = f"{query} touched {touched} rows, not {len(self._rows)}"
            raise Misremembered(what) if self.from_memory else AssertionError(what)
