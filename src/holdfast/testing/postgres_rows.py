"""What tests need of a PostgreSQL store's tables, past the store."""

from collections.abc import Mapping
from typing import Any

import asyncpg

_WAITS = {"uploaded": False, "queued": True}
_ENDED_BADLY = ("failed", "cancelled")
_ASTRAY = """
SELECT page, lane, jobs.n AS jobs, leases.running AS leases
FROM (
    SELECT claimed_in AS page, lane, count(*) AS n, min(lease_expires_at) AS soonest
    FROM holdfast.jobs
    WHERE status = 'processing'
    GROUP BY claimed_in, lane
) AS jobs
FULL JOIN holdfast.leases USING (page, lane)
WHERE jobs.n IS DISTINCT FROM leases.running OR leases.expires_at > jobs.soonest
"""


async def set_columns(url: str, job_id: str, columns: Mapping[str, Any]) -> None:
    """Set columns of a job in the database at `url`, as `World.set_columns` is to do.

    Those that repeat its status for the indexes follow it.
    """
    columns = {**columns, **_following(columns)}
    assignments = ", ".join(f"{name} = ${n}" for n, name in enumerate(columns, start=2))
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            f"UPDATE holdfast.jobs SET {assignments} "  # noqa: S608 - the names are a fact's
            "WHERE seq = (SELECT job FROM holdfast.ids WHERE id = $1)",
            job_id,
            *columns.values(),
        )
    finally:
        await connection.close()


async def leases_astray(url: str) -> list[dict[str, Any]]:
    """Return where the leases of the database at `url` are not those of the jobs that run.

    A job that runs and has none would never be taken back from a worker that died.
    """
    connection = await asyncpg.connect(url)
    try:
        return [dict(line) for line in await connection.fetch(_ASTRAY)]
    finally:
        await connection.close()


def _following(columns: Mapping[str, Any]) -> dict[str, Any]:
    status = columns.get("status")
    if status is None:
        return {}
    return {
        "waits": _WAITS.get(status),
        "ended_badly_at": columns.get("finished_at") if status in _ENDED_BADLY else None,
        "claimed_in": 1,
    }
