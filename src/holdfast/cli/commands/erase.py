"""`holdfast erase`: delete everything of an owner."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import WORK, AppNames, AsJson, Database, Yes
from holdfast.cli.output import confirm, show_json
from holdfast.cli.store_session import on_store

if TYPE_CHECKING:
    from holdfast.jobs.client.erasure import Erased

APP = typer.Typer()
APPS = (APP,)


@APP.command(rich_help_panel=WORK)
def erase(
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="The owner of the jobs.")],
    apps: AppNames = None,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Delete everything of an owner: jobs, files, webhooks, and what the apps keep.

    Running jobs are cancelled first. It can be repeated.
    """
    from holdfast.cli.app_discovery import installed_names

    if not confirm(f"delete everything of {owner!r} for good?", yes=yes):
        return 1
    names = apps or installed_names()
    erased = on_store(database, lambda engine: engine.erase(owner), apps=names)
    if as_json:
        show_json(asdict(erased))
    else:
        print(_line(erased))
    return 0


def _line(erased: "Erased") -> str:
    counts = {"jobs": erased.jobs, "webhooks": erased.webhooks, **erased.data}
    deleted = ", ".join(f"{what} {count}" for what, count in counts.items())
    return f"everything of {erased.owner!r} is deleted: {deleted}"
