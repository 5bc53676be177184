"""`holdfast intake`: keep new work out, and let it in again."""

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.audit_trail import record
from holdfast.cli.options import FLEET, AsJson, Database
from holdfast.cli.output import moment, show_json
from holdfast.cli.store_session import on_store
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.intake_port import IntakePause

APP = typer.Typer(
    name="intake",
    help="Keep new work out, and let it in again.\n\nWhile the intake is paused, all servers "
    "answer uploads, documents and submissions with 503. What is there is worked on.",
    rich_help_panel=FLEET,
)
APPS = (APP,)


@APP.command()
def state(database: Database = None, as_json: AsJson = False) -> int:
    """Say whether it is paused."""
    pause = on_store(database, lambda engine: engine.intake.state())
    if as_json:
        found = None if pause is None else {"reason": pause.reason, "paused_at": _moment(pause)}
        show_json({"paused": pause is not None, **(found or {})})
    else:
        print("the intake is open" if pause is None else _line(pause))
    return 0


@APP.command()
def pause(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="A line for operators.")],
    database: Database = None,
) -> int:
    """Take nothing in from now on."""

    async def work(engine: "Engine") -> "IntakePause":
        paused = await engine.intake.pause(reason)
        await record(engine, "intake.pause", reason=reason)
        return paused

    try:
        paused = on_store(database, work)
    except ValueError as error:
        raise UsageError(f"--reason: {error}") from None
    print(_line(paused))
    return 0


@APP.command()
def resume(database: Database = None) -> int:
    """Take in again."""

    async def work(engine: "Engine") -> bool:
        was_paused = await engine.intake.resume()
        if was_paused:
            await record(engine, "intake.resume")
        return was_paused

    was_paused = on_store(database, work)
    print("the intake is open again" if was_paused else "the intake was not paused")
    return 0


def _line(pause: "IntakePause") -> str:
    return f"the intake is paused since {_moment(pause)}: {pause.reason}"


def _moment(pause: "IntakePause") -> str:
    return f"{moment(pause.paused_at):%Y-%m-%dT%H:%M:%SZ}"
