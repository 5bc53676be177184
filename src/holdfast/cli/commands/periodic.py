"""`holdfast periodic`: list, pause, resume and run periodic jobs."""

from typing import TYPE_CHECKING, Literal

import typer

from holdfast.cli.options import FLEET, AsJson, Database, Names, OfApps
from holdfast.cli.outcomes import Outcome, each, show_outcomes
from holdfast.cli.output import Record, moment, show
from holdfast.cli.store_session import on_store
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.client.periodic_control import PeriodicSchedule

APP = typer.Typer(
    name="periodic", help="List, pause, resume and run periodic jobs.", rich_help_panel=FLEET
)
APPS = (APP,)
_COLUMNS = ("name", "schedule", "state", "next_slot", "last_slot", "last_job")


@APP.command("list")
def list_schedules(as_json: AsJson = False, database: Database = None) -> int:
    """List the periodic jobs that workers have declared."""
    found = on_store(database, lambda engine: engine.periodic.list())
    show([_record(schedule) for schedule in found], _COLUMNS, as_json=as_json)
    return 0


@APP.command()
def pause(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Enqueue no more slots, across restarts; jobs that are queued or running go on."""
    return _change(names, database, "pause", as_json=as_json)


@APP.command()
def resume(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """End a pause, within 5 seconds."""
    return _change(names, database, "resume", as_json=as_json)


@APP.command()
def run(
    names: Names, apps: OfApps = None, as_json: AsJson = False, database: Database = None
) -> int:
    """Enqueue a job now, beside the schedule, also while it is paused; needs --app."""
    if not apps:
        raise UsageError("name the app that declares the job, as --app mypackage.jobs:app")

    async def work(engine: "Engine") -> list[Outcome]:
        async def change(name: str) -> tuple[str, Record]:
            handle = await engine.periodic.run_now(name)
            return f"enqueued {handle.id}", {"name": name, "job_id": handle.id}

        return await each(engine, "periodic.run", names, change)

    return show_outcomes(on_store(database, work, apps=apps), as_json=as_json)


def _change(
    names: list[str], database: str | None, verb: Literal["pause", "resume"], *, as_json: bool
) -> int:
    async def work(engine: "Engine") -> list[Outcome]:
        async def change(name: str) -> tuple[str, Record]:
            control = engine.periodic
            changing = control.pause(name) if verb == "pause" else control.resume(name)
            record = _record(await changing)
            return f"{name} is {record['state']}", record

        return await each(engine, f"periodic.{verb}", names, change)

    return show_outcomes(on_store(database, work), as_json=as_json)


def _record(schedule: "PeriodicSchedule") -> Record:
    state = "active" if schedule.has_worker else "no worker"
    return {
        "name": schedule.name,
        "schedule": schedule.schedule,
        "state": "paused" if schedule.paused else state,
        "missed": schedule.missed,
        "overlap": schedule.overlap,
        "paused_at": moment(schedule.paused_at),
        "next_slot": moment(schedule.next_slot),
        "last_slot": moment(schedule.last_slot),
        "last_job": schedule.last_job,
    }
