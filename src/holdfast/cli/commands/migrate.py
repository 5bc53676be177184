"""`holdfast migrate`."""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import CARE, AppNames, Database
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.jobs.declare.app import App

APP = typer.Typer()
APPS = (APP,)


@APP.command(rich_help_panel=CARE)
def migrate(
    apps: AppNames = None,
    database: Database = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only say what is missing; exit code 1 if anything is."),
    ] = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Only print the SQL that would be applied.")
    ] = False,
) -> int:
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
