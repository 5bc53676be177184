"""The tables of a PostgreSQL store, bypassing the store."""

from collections.abc import Mapping
from typing import Any

import asyncpg
from tests.support.killed_worker import register_and_kill

from holdfast.clock import SYSTEM_CLOCK


class PostgresTables:
    """What the conformance suite needs of the database at `url`; see `Tables`."""

    # The latter is raised for a name that is not one of an enumeration's.
    violations = (asyncpg.CheckViolationError, asyncpg.InvalidTextRepresentationError)

    def __init__(self, url: str) -> None:
        self._url = url

    async def set_columns(self, job_id: str, columns: Mapping[str, Any]) -> None:
        """Set columns of one job's row."""
        assignments = ", ".join(f"{name} = ${n}" for n, name in enumerate(columns, start=2))
        update = (
            f"UPDATE holdfast.jobs SET {assignments} "
            "WHERE seq = (SELECT job FROM holdfast.ids WHERE id = $1)"
        )
        await self._fetch(update, job_id, *columns.values())

    async def shown_held_by(self, job_id: str) -> str | None:
        """Return what holds the job by the view for people, whose `held` must agree."""
        query = "SELECT held, held_by FROM holdfast.jobs_readable WHERE id = $1"
        (row,) = await self._fetch(query, job_id)
        assert row["held"] is (row["held_by"] is not None)
        holder: str | None = row["held_by"]
        return holder

    async def kill_worker(self, worker_id: str) -> None:
        """Register a worker in another process, kill that, and wait for its session to end."""
        await register_and_kill(self._url, worker_id)
        ended = (
            "SELECT pg_try_advisory_lock_shared(holdfast.session_key(session)) "
            "FROM holdfast.workers WHERE id = $1"
        )
        while not (await self._fetch(ended, worker_id))[0][0]:
            await SYSTEM_CLOCK.sleep_async(0.01)

    async def _fetch(self, sql: str, *values: Any) -> list[Any]:
        connection = await asyncpg.connect(self._url)
        try:
            return list(await connection.fetch(sql, *values))
        finally:
            await connection.close()
