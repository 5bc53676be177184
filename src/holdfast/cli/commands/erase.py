"""`holdfast erase`: delete everything of an owner."""

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.audit_trail import record
from holdfast.cli.options import WORK, AppNames, AsJson, Database, DryRun, Yes
from holdfast.cli.output import confirm, show_json
from holdfast.cli.store_session import on_store
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.bootstrap import Engine
    from holdfast.jobs.client.erasure import Erased

APP = typer.Typer()
APPS = (APP,)


@APP.command(rich_help_panel=WORK)
def erase(
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="The owner of the jobs.")],
    apps: AppNames = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Delete everything of an owner: jobs, files, webhooks, and what the apps keep.

    Running jobs are cancelled first. It can be repeated.
    """
    from holdfast.cli.app_discovery import installed_names

    names = apps or installed_names()
    if dry_run:
        jobs, webhooks = on_store(database, lambda engine: _counted(engine, owner), apps=names)
        counts = {"jobs": jobs, "webhooks": webhooks}
        if as_json:
            show_json({"owner": owner, **counts, "dry_run": True})
        else:
            print(f"would delete of {owner!r}: {_listed(counts)}, and what the apps keep")
        return 0
    if not confirm(f"delete everything of {owner!r} for good?", yes=yes):
        return 1
    erased = on_store(database, lambda engine: _erased(engine, owner), apps=names)
    if as_json:
        show_json(asdict(erased))
    else:
        counts = {"jobs": erased.jobs, "webhooks": erased.webhooks, **erased.data}
        print(f"everything of {erased.owner!r} is deleted: {_listed(counts)}")
    return 0


async def _erased(engine: "Engine", owner: str) -> "Erased":
    jobs, webhooks = await _counted(engine, owner)
    await record(engine, "owners.erase", owner, jobs=jobs, webhooks=webhooks)
    with _undeclared_as_usage():  # jobs of such a kind may have come since
        return await engine.erase(owner)


async def _counted(engine: "Engine", owner: str) -> tuple[int, int]:
    """Return how many jobs and webhooks an owner has."""
    from holdfast.jobs.client.erasure import count_jobs

    with _undeclared_as_usage():
        return await count_jobs(engine, owner), len(await engine.webhooks.list(owner))


@contextmanager
def _undeclared_as_usage() -> "Iterator[None]":
    from holdfast.jobs.client.erasure import UndeclaredKinds

    try:
        yield
    except UndeclaredKinds as error:
        raise UsageError(f"{error}; name their apps too, as mypackage.jobs:app") from None


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{what} {count}" for what, count in counts.items())
