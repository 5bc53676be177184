"""`holdfast migrate`."""

from typing import Annotated

import typer

from holdfast.cli.base_commands import CHECK, MIGRATE, SQL
from holdfast.cli.options import CARE, AppNames, Database, typer_info

APP = typer.Typer()
APPS = (APP,)


@APP.command(help=MIGRATE.help, rich_help_panel=CARE)
def migrate(
    apps: AppNames = None,
    database: Database = None,
    check: Annotated[bool, typer_info(CHECK)] = False,
    sql: Annotated[bool, typer_info(SQL)] = False,
) -> int:
    """Create or update the schema, as the base command does."""
    return MIGRATE.function(apps, database, check, sql)
