"""`holdfast top`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import CARE, AsJson, Database
from holdfast.cli.output import camel, show, show_json
from holdfast.cli.store_session import on_store
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.cli.fleet_snapshot import FleetSnapshot

APP = typer.Typer()
APPS = (APP,)


@APP.command(rich_help_panel=CARE)
def top(
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between two looks.")
    ] = 1.0,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Watch queues, rates, breakers and workers, live; q or Ctrl-C ends it.

    Where the output is piped, and with --json, it is printed once.
    """
    if interval < 0.1:
        raise UsageError(f"--interval must be at least 0.1, got {interval:g}")
    if once or as_json or not sys.stdout.isatty():
        from holdfast.cli.fleet_snapshot import FleetSnapshot

        _print_once(on_store(database, FleetSnapshot.read), as_json=as_json)
        return 0
    from holdfast.cli.top_screen import show_until_quit

    on_store(database, lambda engine: show_until_quit(engine, interval))
    return 0


def _print_once(snapshot: "FleetSnapshot", *, as_json: bool) -> None:
    from holdfast.cli.commands.fleet import worker_records
    from holdfast.cli.fleet_snapshot import BREAKER_COLUMNS, QUEUE_COLUMNS

    workers = worker_records(snapshot.workers)
    if as_json:
        show_json(
            {
                "unfinished": snapshot.unfinished,
                "dead_letters": snapshot.stats.dead_letters,
                "outbox_pending": snapshot.backlog.pending,
                "outbox_lag": snapshot.backlog.lag,
                "queues": [camel(each) for each in snapshot.queue_records()],
                "breakers": [camel(each) for each in snapshot.breaker_records()],
                "workers": [camel(each) for each in workers],
            }
        )
        return
    show(snapshot.queue_records(), QUEUE_COLUMNS)
    print()
    show(snapshot.breaker_records(), BREAKER_COLUMNS)
    print()
    show(workers, ("id", "running", "finish_requested_at"))
