"""The commands that run until they are stopped: `serve`, `worker`, `relay`; and `tour`."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from holdfast.cli.base_commands import CONCURRENCY, QUEUE, WORKER
from holdfast.cli.missing_extra import needs_more
from holdfast.cli.options import RUNNING, AppNames, Database, UntilIdle, typer_info

APP = typer.Typer()
APPS = (APP,)


class ServeCommand(TyperCommand):
    """A command that also takes the options that installed apps add to `holdfast serve`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the apps' options out of `args`; the settings that they write are `ctx.obj`."""
        from holdfast.cli.extensions import parse_serve_options

        ctx.obj, rest = parse_serve_options(args)
        return super().parse_args(ctx, rest)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, and the options of apps after it."""
        from holdfast.cli.extensions import serve_options_help

        super().format_help(ctx, formatter)
        typer.echo(serve_options_help())


@APP.command(cls=ServeCommand, rich_help_panel=RUNNING)
def serve(
    context: typer.Context,
    apps: AppNames = None,
    database: Database = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1 is for this machine only.")
    ] = "127.0.0.1",
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Run no jobs here; start workers elsewhere.")
    ] = False,
) -> int:
    """Serve the API and the pages, with a worker and all that the apps need beside it.

    Runs until SIGTERM or Ctrl-C: running jobs are then finished or released in time. Settings come
    from the environment: PORT, HOLDFAST_DATA_DIR and those of the apps.
    """
    try:
        from holdfast.cli import serve as serving
    except ModuleNotFoundError as error:
        if error.name not in {"fastapi", "uvicorn", "starlette", "pydantic"}:
            raise
        raise ValueError(needs_more("serve")) from None
    return serving.serve(
        apps or (), host=host, database=database, worker=not no_worker, settings=context.obj
    )


@APP.command(help=WORKER.help, rich_help_panel=RUNNING)
def worker(
    apps: AppNames = None,
    database: Database = None,
    queue: Annotated[list[str] | None, typer_info(QUEUE)] = None,
    concurrency: Annotated[int | None, typer_info(CONCURRENCY)] = None,
    until_idle: UntilIdle = False,
) -> int:
    """Run jobs, as the base command does."""
    return WORKER.function(apps, database, queue, concurrency, until_idle)


@APP.command(rich_help_panel=RUNNING)
def relay(apps: AppNames = None, database: Database = None, until_idle: UntilIdle = False) -> int:
    """Publish the messages of the outbox until SIGTERM or Ctrl-C.

    They go to the RabbitMQ at RABBITMQ_URL; without that setting they become jobs of the apps
    named. Any number of relays may run. OUTBOX_POLL_INTERVAL_MS, OUTBOX_BATCH_SIZE and
    OUTBOX_STALE_THRESHOLD_MS change how it works.
    """
    from holdfast.cli import relay_process

    return relay_process.relay(apps or (), database, until_idle=until_idle)


def _pace(factor: float) -> float:
    if not 0 < factor <= 100:
        raise typer.BadParameter(f"must be above 0 and at most 100, got {factor:g}")
    return factor


@APP.command(rich_help_panel=RUNNING)
def tour(
    pace: Annotated[
        float,
        typer.Option(
            metavar="FACTOR", callback=_pace, help="Stretch (2) or shorten (0.1) every wait."
        ),
    ] = 1.0,
) -> int:
    """Take a tour: guarded calls against a real local server that fails on cue.

    Shows what retries, Retry-After and the breaker do. Takes a few seconds and ends by itself.
    """
    from holdfast.cli import tour as touring

    return touring.take(pace=pace)
