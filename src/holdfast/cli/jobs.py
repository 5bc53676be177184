"""Commands that deal with jobs."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from holdfast import bootstrap


def migrate(database: str) -> int:
    """Bring the schema of `database` up to date, and say its version."""
    _make_folder(database)
    version = asyncio.run(bootstrap.migrate(database))
    print(f"the schema is up to date at version {version}")
    return 0


def work(
    apps: Sequence[str],
    database: str,
    *,
    queues: Sequence[str] | None = None,
    concurrency: int = 10,
    until_idle: bool = False,
) -> int:
    """Run the jobs of `apps`, named as `mypackage.jobs:app`, until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    loaded = [bootstrap.load_app(app) for app in apps]
    _make_folder(database)

    async def run() -> None:
        async with bootstrap.Engine(database, apps=loaded) as engine:
            await engine.work(
                until_idle=until_idle,
                concurrency=concurrency,
                queues=queues,
                stop_on_signals=True,
            )

    asyncio.run(run())
    return 0


def _make_folder(database: str) -> None:
    """Make the folder of the default file; any other must be there, lest a typo make a new one."""
    from holdfast.cli import DEFAULT_DATABASE

    if database == DEFAULT_DATABASE:
        Path(database.removeprefix("sqlite:///")).parent.mkdir(exist_ok=True)
