"""`holdfast migrate`."""

import typer

from holdfast.cli.base_commands import MIGRATE
from holdfast.cli.options import CARE, list_base_command

APP = typer.Typer()
APPS = (APP,)

list_base_command(APP, MIGRATE, CARE)
