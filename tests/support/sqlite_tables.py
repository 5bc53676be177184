"""The tables of a SQLite store, bypassing the store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw
from tests.support.killed_worker import register_and_kill


class SQLiteTables:
    """What the conformance suite needs of the file at `path`; see `Tables`."""

    violations = (apsw.ConstraintError,)

    def __init__(self, path: Path) -> None:
        self._path = path

    async def set_columns(self, job_id: str, columns: Mapping[str, Any]) -> None:
        """Set columns of one job's row."""
        assignments = ", ".join(f"{name} = ?" for name in columns)
        update = f"UPDATE holdfast_jobs SET {assignments} WHERE id = ?"
        self._fetch(update, *columns.values(), job_id)

    async def shown_held_by(self, job_id: str) -> str | None:
        """Return what holds the job by the view for people, whose `held` must agree."""
        query = "SELECT held, held_by FROM holdfast_jobs_readable WHERE id = ?"
        ((held, holder),) = self._fetch(query, job_id)
        assert bool(held) is (holder is not None)
        return None if holder is None else str(holder)

    async def kill_worker(self, worker_id: str) -> None:
        """Register a worker in another process, and kill that process."""
        await register_and_kill(f"sqlite:///{self._path}", worker_id)

    def _fetch(self, sql: str, *values: Any) -> list[Any]:
        connection = apsw.Connection(str(self._path))
        try:
            connection.set_busy_timeout(5000)
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()
