"""The commands that work without the extra `cli`: `holdfast worker` and `holdfast migrate`."""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.base_command import BaseCommand, Parameter
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.jobs.declare.app import App

APPS = Parameter(
    "apps",
    "An installed app's name, or mypackage.jobs:app; default: all.",
    metavar="APP",
    many=True,
)
DATABASE = Parameter(
    "--database", "Default: HOLDFAST_DATABASE_URL, else a file in HOLDFAST_DATA_DIR.", metavar="URL"
)
QUEUE = Parameter("--queue", "Serve only this queue; may be repeated.", metavar="NAME", many=True)
CONCURRENCY = Parameter(
    "--concurrency", "Jobs at once; default: WORKER_CONCURRENCY, else 10.", metavar="N", convert=int
)
UNTIL_IDLE = Parameter("--until-idle", "Stop when nothing is ready.")
CHECK = Parameter("--check", "Only say what is missing; exit code 1 if anything is.")
SQL = Parameter("--sql", "Only print the SQL that would be applied.")


def worker(
    apps: Sequence[str] | None,
    database: str | None,
    queue: Sequence[str] | None,
    concurrency: int | None,
    until_idle: bool,
) -> int:
    """Run jobs until SIGTERM or Ctrl-C.

    Running jobs are then finished or released in time; a second signal releases them at once.
    """
    from holdfast.cli import worker_process

    return worker_process.work(
        apps or (), database, queues=queue or None, concurrency=concurrency, until_idle=until_idle
    )


def migrate(apps: Sequence[str] | None, database: str | None, check: bool, sql: bool) -> int:
    """Create or update a database's schema, with the tables of the apps.

    Needed before the first start on PostgreSQL and after an update; the embedded store does it by
    itself. Safe to run at any time.
    """
    from holdfast import bootstrap
    from holdfast.cli.worker_setup import database_address, set_up_log
    from holdfast.settings import Environment, Settings

    if check and sql:
        raise UsageError("--check is not allowed with --sql")
    settings = Settings.load(Environment(os.environ))
    set_up_log(settings, os.environ)
    url = database_address(settings, database)
    declared = _declared(apps or ())
    if sql:
        print(asyncio.run(bootstrap.migration_script(url, declared)), end="")
        return 0
    if check:
        missing = asyncio.run(bootstrap.missing_migrations(url, declared))
        print(f"missing: {missing}" if missing else "the schema is up to date")
        return 1 if missing else 0
    version = asyncio.run(bootstrap.migrate(url, declared))
    print(f"the schema is up to date at version {version}")
    return 0


def _declared(names: Sequence[str]) -> "list[App]":
    """Return the apps called `names`, or all that are installed, if any is."""
    from holdfast.cli.app_discovery import find_declared, installed_names

    return find_declared(names, os.environ) if names or installed_names() else []


WORKER = BaseCommand(worker, (APPS, DATABASE, QUEUE, CONCURRENCY, UNTIL_IDLE))
MIGRATE = BaseCommand(migrate, (APPS, DATABASE, CHECK, SQL))
BASE_COMMANDS = {each.name: each for each in (WORKER, MIGRATE)}
