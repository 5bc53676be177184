"""Options and arguments that several commands share, and the headings of the help."""

from typing import Annotated

import typer

RUNNING = "Run"
WORK = "Jobs and messages"
FLEET = "Downstreams and workers"
CARE = "Set up and diagnose"

AppNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="APP",
        help="An installed app's name, or mypackage.jobs:app; default: all.",
        show_default=False,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="Default: HOLDFAST_DATABASE_URL, else a file in HOLDFAST_DATA_DIR.",
        show_default=False,
    ),
]
UntilIdle = Annotated[bool, typer.Option("--until-idle", help="Stop when nothing is ready.")]
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
