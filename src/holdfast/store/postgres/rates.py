"""Rates that all processes on the database share."""

from holdfast.jobs.rate_port import GivenStarts, kept_starts, lookback, next_start
from holdfast.resilience.policy import RateLimit
from holdfast.store.postgres.connection import Connection, Database, rows


class SharedRates:
    """The part of the store that gives out starts; see `RateStore`."""

    _database: Database

    async def reserve_start(
        self, name: str, limit: RateLimit, longest: float, *, now: float | None = None
    ) -> float:
        """Return the seconds to wait before the next call under the rate `name`."""
        return await self._database.transaction(
            lambda connection: _reserve(connection, name, limit, longest, now)
        )


async def _reserve(
    connection: Connection, name: str, limit: RateLimit, longest: float, now: float | None
) -> float:
    # It locks the row, so the statements after it see all starts that were given before.
    ((count, last),) = await rows(connection, "rate_lock", name=name, kept=kept_starts(limit))
    found = await rows(
        connection, "rate_starts", name=name, numbers=lookback(limit, count), now=now
    )
    ((at, numbers, starts),) = found
    start = next_start(limit, GivenStarts(count, last, dict(zip(numbers, starts, strict=True))), at)
    if start - at <= longest:
        await rows(connection, "rate_give", name=name, number=count + 1, start=start)
    return float(start - at)
