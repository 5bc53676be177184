"""What tests need of a PostgreSQL store's tables, past the store."""

from collections.abc import Mapping
from typing import Any

import asyncpg


async def set_columns(url: str, job_id: str, columns: Mapping[str, Any]) -> None:
    """Set columns of a job in the database at `url`, as `World.set_columns` is to do."""
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
