"""Options and arguments that several commands share, and the headings of the help."""

from typing import Annotated, Any

import typer

from holdfast.cli.base_command import Parameter
from holdfast.cli.base_commands import APPS, DATABASE, UNTIL_IDLE

RUNNING = "Run"
WORK = "Jobs and messages"
FLEET = "Downstreams and workers"
CARE = "Set up and diagnose"


def typer_info(parameter: Parameter) -> Any:
    """Return `parameter` as typer declares it."""
    metavar, text = parameter.metavar, parameter.help
    if parameter.is_option:
        return typer.Option(parameter.name, metavar=metavar, help=text, show_default=False)
    return typer.Argument(metavar=metavar, help=text, show_default=False)


AppNames = Annotated[list[str] | None, typer_info(APPS)]
Database = Annotated[str | None, typer_info(DATABASE)]
UntilIdle = Annotated[bool, typer_info(UNTIL_IDLE)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Most to list.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
OfApps = Annotated[
    list[str] | None,
    typer.Option(
        "--app",
        metavar="APP",
        help="Also apply the rules of this app; may be repeated.",
        show_default=False,
    ),
]
JobIds = Annotated[list[str], typer.Argument(metavar="ID", help="Ids of jobs.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="NAME", help="Of this kind; may be repeated."),
]
ErrorPart = Annotated[
    str | None,
    typer.Option(
        "--error", metavar="TEXT", help="With this error code, or a part of the error's message."
    ),
]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="One name or several.")]
