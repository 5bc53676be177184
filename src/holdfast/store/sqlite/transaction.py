"""The writer's transaction: the connection, the time, and the counters to update."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.store.sql_files import load_queries

SQL: Mapping[str, str] = load_queries("holdfast.store.sqlite")
"""Every named query of this dialect."""

Row = tuple[Any, ...]

_COUNTERS = ("uploaded", "scheduled", "ready", "processing", "complete", "failed", "cancelled")


def as_json(value: Any) -> str:
    """Return `value` as JSON text for a statement's parameter."""
    # A lone surrogate fails here instead of storing broken text.
    return _ENCODER.encode(value).decode()


def as_numbers(numbers: Iterable[int]) -> object:
    """Return whole `numbers` as a parameter for `carray` in a statement."""
    return apsw.carray(array("q", numbers))


def _plain(value: object) -> object:
    """Return an instance of a subclass of str, int or float as plain str, int or float."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"{value!r} cannot be stored")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


class Transaction:
    """One write request inside the writer's transaction.

    `now` is its time in epoch seconds, `clock_offset` how many seconds the wall clock is ahead of
    the monotonic clock. `woke` says that something became claimable; `moved` collects the
    downstream records whose breakers changed their state.
    """

    __slots__ = (
        "_dead", "_lanes", "_outcomes", "_totals", "clock_offset", "db", "moved", "now", "woke"
    )  # fmt: skip

    def __init__(self, db: apsw.Connection, now: float, clock_offset: float) -> None:
        self.db = db
        self.now = now
        self.clock_offset = clock_offset
        self.woke = False
        self.moved: list[DownstreamRecord] = []
        self._lanes: dict[int, Counter[str]] = defaultdict(Counter)
        self._totals: Counter[str] = Counter()
        self._outcomes: Counter[tuple[str, str, int]] = Counter()
        self._dead: Counter[tuple[str, str, str]] = Counter()

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run the named `query` and return all its rows."""
        return self.db.execute(SQL[query], parameters).fetchall()

    def each(self, query: str, parameters: Mapping[str, Any]) -> Iterator[Row]:
        """Run the named `query` and return its rows one by one, as they are asked for."""
        return self.db.execute(SQL[query], parameters)

    def value(self, query: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run the named `query` and return the first column of its only row, or None."""
        rows = self.rows(query, parameters)
        return rows[0][0] if rows else None

    def change(self, query: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run the named `query` and return how many rows it touched."""
        self.db.execute(SQL[query], parameters)
        return self.db.changes()

    def change_exactly(self, expected: int, query: str, parameters: Mapping[str, Any]) -> None:
        """Run the named `query`, which must touch exactly `expected` rows."""
        touched = self.change(query, parameters)
        if touched != expected:
            raise AssertionError(f"{query} touched {touched} rows, not {expected}")

    def move_count(self, lane: int, origin: str | None, target: str | None, n: int = 1) -> None:
        """Move `n` jobs of `lane` from one of its counters to another; None is no counter."""
        counts = self._lanes[lane]
        if origin is not None:
            counts[origin] -= n
        if target is not None:
            counts[target] += n

    def count_total(self, name: str, n: int = 1) -> None:
        """Add to a named total."""
        self._totals[name] += n

    def count_outcome(self, kind: str, status: str, attempts: int, n: int = 1) -> None:
        """Count `n` jobs that finished."""
        self._outcomes[kind, status, attempts] += n

    def count_dead(self, kind: str, code: str, group: str, n: int) -> None:
        """Add `n` dead letters to their group; a negative `n` removes them."""
        self._dead[kind, code, group] += n

    def flush(self) -> None:
        """Write the counters that have changed."""
        for lane, counts in self._lanes.items():
            if any(counts.values()):
                parameters = {name: counts[name] for name in _COUNTERS}
                self.change("count_lane", {"lane": lane, **parameters})
        self._lanes.clear()
        for name, n in _nonzero(self._totals):
            self.change("count_total", {"name": name, "count": n})
        for (kind, status, attempts), n in _nonzero(self._outcomes):
            self.change(
                "count_outcome",
                {"kind": kind, "status": status, "attempts": attempts, "count": n},
            )
        for (kind, code, message), n in _nonzero(self._dead):
            group = {"kind": kind, "code": code, "message": message}
            self.change("count_dead", {**group, "count": n})
            if n < 0:
                self.change("count_forget_empty_dead", group)


def _nonzero(counter: Counter[Any]) -> Sequence[tuple[Any, int]]:
    """Empty `counter` and return its non-zero counts."""
    held: Iterable[tuple[Any, int]] = counter.items()
    found = [(key, n) for key, n in held if n]
    counter.clear()
    return found
