"""Open the store of a command, without the user's app where that is not needed."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from holdfast.cli.usage import UsageError
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine

T = TypeVar("T")


def on_store(
    database: str | None,
    work: "Callable[[Engine], Awaitable[T]]",
    *,
    apps: Sequence[str] = (),
    create: bool = False,
) -> T:
    """Return what `work` returns on the store of the settings, or of `database`.

    `apps` are declared in the engine; none is needed to read and to change what is stored. An
    embedded store that does not exist yet is created only with `create`.

    Raises:
        UsageError: the command names something that the store does not have, or there is no store.
    """
    from holdfast import bootstrap
    from holdfast.cli.app_discovery import find_declared
    from holdfast.cli.worker_setup import database_address, existing_database, set_up_log
    from holdfast.settings import Environment, Settings

    settings = Settings.load(Environment(os.environ))
    declared = find_declared(apps, os.environ) if apps else []
    # Such a command prints itself what it did.
    set_up_log(settings, os.environ, logging.WARNING)
    url = (database_address if create else existing_database)(settings, database)

    limits = bootstrap.default_owner_limits(Environment(os.environ))

    async def run() -> T:
        async with bootstrap.Engine(url, apps=declared, owner_limits=limits) as engine:
            return await work(engine)

    try:
        return asyncio.run(run())
    except HoldfastError as error:
        if isinstance(error, LookupError):  # UnknownJob, UnknownQueue and their like
            raise UsageError(str(error)) from None
        raise


def at_least_one(name: str, value: int) -> int:
    """Return `value` of the option `name`.

    Raises:
        ValueError: it is below 1.
    """
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value
