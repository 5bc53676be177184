"""`holdfast erase`: delete everything of an owner."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import asdict

from holdfast import bootstrap
from holdfast.cli.app_discovery import find_workable, has_installed
from holdfast.cli.usage import UsageError
from holdfast.cli.worker_setup import database_address, set_up_log
from holdfast.jobs.client.erasure import Erased
from holdfast.jobs.declare.app import App
from holdfast.settings import Environment, Settings


def erase(
    owner: str,
    apps: Sequence[str] = (),
    database: str | None = None,
    *,
    confirmed: bool,
    as_json: bool = False,
) -> int:
    """Delete everything of `owner`, with what `apps`, or all that are installed, keep.

    Returns the exit code: 0 where it is all deleted.
    """
    if not confirmed:
        raise UsageError(f"this deletes everything of {owner!r} for good: add --yes")
    settings = Settings.load(Environment(os.environ))
    set_up_log(settings, os.environ)
    found = find_workable(apps, os.environ) if apps or has_installed() else []
    declared = [app if isinstance(app, App) else app.app for app in found]

    async def run() -> Erased:
        url = database_address(settings, database)
        async with bootstrap.Engine(url, apps=declared) as engine:
            return await engine.erase(owner)

    erased = asyncio.run(run())
    print(json.dumps(asdict(erased)) if as_json else _line(erased))
    return 0


def _line(erased: Erased) -> str:
    counts = {"jobs": erased.jobs, "webhooks": erased.webhooks, **erased.data}
    deleted = ", ".join(f"{what} {count}" for what, count in counts.items())
    return f"everything of {erased.owner!r} is deleted: {deleted}"
