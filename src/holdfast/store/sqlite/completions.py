"""Write completions, which is how most attempts end: many in a few statements."""

from collections import Counter

from holdfast.jobs.model import Completed, Finished
from holdfast.store.sqlite.attempt_ends import RunningJob
from holdfast.store.sqlite.transaction import Transaction, as_json, as_numbers
from holdfast.store.text import clean_or_none

_Completion = tuple[int, int, str | None, float, str | None, int, str, float]
"""Seq, token, result, duration and meta, which are a row of `finish_complete`; then the attempt's
number, its worker, and when it started."""


class Completions:
    """The completions of one tick."""

    __slots__ = ("_counts", "_rows", "_tx")

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._rows: list[_Completion] = []
        self._counts: Counter[tuple[int, str, int]] = Counter()

    def add(self, item: Finished, outcome: Completed, job: RunningJob) -> None:
        """Add the completion of `job`, whose deadline has not passed."""
        duration = job.duration(item.duration, self._tx.now)
        result, meta = clean_or_none(outcome.result), clean_or_none(item.meta)
        attempt, started_at = job.attempt_count, job.last_attempt_at
        self._rows.append(
            (job.seq, job.token, result, duration, meta, attempt, job.worker_id, started_at)
        )
        self._counts[job.lane, job.kind, attempt] += 1

    def write(self) -> None:
        """Move the jobs to complete, with their history and counters."""
        if not self._rows:
            return
        _, token, result, _, _, attempt, worker_id, _ = self._rows[0]
        first = (token, result, None, attempt, worker_id)
        if all((t, r, m, a, w) == first for _, t, r, _, m, a, w, _ in self._rows):
            self._write_uniform(token, result, attempt, worker_id)
        else:
            given = {"rows": as_json([row[:5] for row in self._rows]), "now": self._tx.now}
            for query in ("finish_complete_ends", "finish_complete"):
                self._tx.change_exactly(len(self._rows), query, given)
        for (lane, kind, attempts), count in self._counts.items():
            self._tx.move_count(lane, "processing", "complete", count)
            self._tx.count_outcome(kind, "complete", attempts, count)

    def _write_uniform(self, token: int, result: str | None, attempt: int, worker_id: str) -> None:
        """Write completions that differ only in their jobs and times, which is cheaper."""
        tx, count = self._tx, len(self._rows)
        given = {"token": token, "now": tx.now}
        seqs = as_numbers([row[0] for row in self._rows])
        jobs = {"seqs": seqs, "result": result, **given}
        tx.change_exactly(count, "finish_complete_uniform", jobs)
        times = as_json([(seq, duration, at) for seq, _, _, duration, _, _, _, at in self._rows])
        ends = {"rows": times, "attempt": attempt, "worker": worker_id, **given}
        tx.change_exactly(count, "finish_complete_ends_uniform", ends)
