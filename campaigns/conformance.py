"""Hold a store to the facts of `holdfast.testing.conformance`, without pytest.

`python -m campaigns.conformance sqlite|postgres` ends with 1 at the first fact that does not hold,
and prints its name. The engine is whichever one `PYTHONPATH` finds first.
"""

import asyncio
import itertools
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import apsw

from holdfast.bootstrap import migrate, open_store
from holdfast.jobs.store_port import Store
from holdfast.testing.conformance import FACTS, Fact, World
from holdfast.testing.postgres import PostgresServer

SetColumns = Callable[[str, Mapping[str, Any]], Awaitable[None]]


def run(store: str) -> str:
    """Return the first fact that does not hold, and why; empty where all hold."""
    with tempfile.TemporaryDirectory(prefix="holdfast-facts-") as folder:
        if store == "sqlite":
            return _first_failure(_on_files(Path(folder)))
        with PostgresServer(fsync=False) as server:
            template = server.create_database()
            asyncio.run(migrate(server.url(template)))
            return _first_failure(_on_databases(server, template))


def _first_failure(check: Callable[[Fact], Awaitable[None]]) -> str:
    for fact in FACTS:
        try:
            asyncio.run(_within(check(fact)))
        except Exception as error:
            return f"{fact.__name__} ({type(error).__name__}: {str(error)[:100]})"
    return ""


async def _within(check: Awaitable[None]) -> None:
    async with asyncio.timeout(60):
        await check


def _on_files(folder: Path) -> Callable[[Fact], Awaitable[None]]:
    numbers = itertools.count()

    async def check(fact: Fact) -> None:
        path = folder / f"{next(numbers)}.db"

        async def set_columns(job_id: str, columns: Mapping[str, Any]) -> None:
            db = apsw.Connection(str(path))
            try:
                db.set_busy_timeout(5000)
                names = ", ".join(f"{name} = ?" for name in columns)
                update = f"UPDATE holdfast_jobs SET {names} WHERE id = ?"  # noqa: S608 - a fact's names
                db.execute(update, (*columns.values(), job_id))
            finally:
                db.close()

        await _check(fact, f"sqlite:///{path}", set_columns, apsw.ConstraintError)

    return check


def _on_databases(server: PostgresServer, template: str) -> Callable[[Fact], Awaitable[None]]:
    import asyncpg

    from holdfast.testing import postgres_rows

    async def check(fact: Fact) -> None:
        url = server.url(server.create_database(template))

        async def set_columns(job_id: str, columns: Mapping[str, Any]) -> None:
            await postgres_rows.set_columns(url, job_id, columns)

        await _check(fact, url, set_columns, asyncpg.PostgresError)

    return check


async def _check(fact: Fact, url: str, set_columns: SetColumns, violation: type[Exception]) -> None:
    async with AsyncExitStack() as opened:

        async def open_one() -> Store:
            return await opened.enter_async_context(open_store(url))

        await fact(World(await open_one(), open_one, set_columns, (violation,)))


if __name__ == "__main__":
    failure = run(sys.argv[1])
    if failure:
        sys.stdout.write(f"{failure}\n")
    sys.exit(1 if failure else 0)
