"""Run the conformance suite `holdfast.testing.conformance` on a store, without pytest.

`python -m campaigns.conformance sqlite|postgres` prints the first fact that fails and exits with 1.
It tests the `holdfast` package that `PYTHONPATH` finds first.
"""

import asyncio
import itertools
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.postgres_server import PostgresServer
from tests.support.sqlite_tables import SQLiteTables

from holdfast.bootstrap import migrate, open_store
from holdfast.jobs.store_port import Store
from holdfast.testing.conformance import FACTS, Fact, Tables, World


def run(store: str) -> str:
    """Return the name of the first fact that fails, and its error; empty if all hold."""
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
            asyncio.run(_with_timeout(check(fact)))
        except Exception as error:
            return f"{fact.__name__} ({type(error).__name__}: {str(error)[:100]})"
    return ""


async def _with_timeout(check: Awaitable[None]) -> None:
    async with asyncio.timeout(60):
        await check


def _on_files(folder: Path) -> Callable[[Fact], Awaitable[None]]:
    numbers = itertools.count()

    async def check(fact: Fact) -> None:
        path = folder / f"{next(numbers)}.db"
        await _check(fact, f"sqlite:///{path}", SQLiteTables(path))

    return check


def _on_databases(server: PostgresServer, template: str) -> Callable[[Fact], Awaitable[None]]:
    from tests.support.postgres_tables import PostgresTables

    async def check(fact: Fact) -> None:
        url = server.url(server.create_database(template))
        await _check(fact, url, PostgresTables(url))

    return check


async def _check(fact: Fact, url: str, tables: Tables) -> None:
    async with AsyncExitStack() as opened:

        async def open_one() -> Store:
            return await opened.enter_async_context(open_store(url))

        await fact(World(await open_one(), open_one, tables))


if __name__ == "__main__":
    failure = run(sys.argv[1])
    if failure:
        sys.stdout.write(f"{failure}\n")
    sys.exit(1 if failure else 0)
