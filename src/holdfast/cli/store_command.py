"""Run a command's work on an open engine."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast import bootstrap
from holdfast.cli.worker_setup import database_address, set_up_log
from holdfast.settings import Environment, Settings

T = TypeVar("T")


def with_engine(database: str | None, work: Callable[[bootstrap.Engine], Awaitable[T]]) -> T:
    """Return what `work` returns, on the store of the settings or of `database`."""
    settings = Settings.load(Environment(os.environ))
    set_up_log(settings, os.environ)

    async def run() -> T:
        async with bootstrap.Engine(database_address(settings, database)) as engine:
            return await work(engine)

    return asyncio.run(run())
