"""Rates that all processes on the file share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from holdfast.jobs.rate_port import GivenStarts, kept_starts, lookback, next_start
from holdfast.resilience.policy import RateLimit
from holdfast.store.sqlite.transaction import Transaction, as_json

T = TypeVar("T")


class SharedRates(ABC):
    """The part of the store that gives out starts; see `RateStore`."""

    @abstractmethod
    async def _write(self, work: Callable[[Transaction], T], now: float | None = None) -> T:
        """Do `work` in a transaction and return its value."""

    async def reserve_start(
        self, name: str, limit: RateLimit, longest: float, *, now: float | None = None
    ) -> float:
        """Return the seconds to wait before the next call under the rate `name`."""
        return await self._write(lambda tx: _reserve(tx, name, limit, longest), now)


def _reserve(tx: Transaction, name: str, limit: RateLimit, longest: float) -> float:
    rows = tx.rows("rate_get", {"name": name})
    count, last, kept = rows[0] if rows else (0, None, 0)
    numbers = as_json(lookback(limit, count))
    earlier: dict[int, float] = dict(tx.rows("rate_starts", {"name": name, "numbers": numbers}))
    start = next_start(limit, GivenStarts(count, last, earlier), tx.now)
    if start - tx.now <= longest:
        kept = max(kept, kept_starts(limit))
        given = {"name": name, "number": count + 1, "start": start, "kept": kept}
        tx.change("rate_give", given)
        tx.change("rate_add_start", given)
        tx.change("rate_forget_starts", given)
    return start - tx.now
