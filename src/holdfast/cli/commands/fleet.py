"""`holdfast queues`, `kinds` and `workers`: what is claimed, and who claims."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import typer

from holdfast.cli.options import FLEET, AsJson, Database, Names
from holdfast.cli.outcomes import Outcome, each, show_outcomes
from holdfast.cli.output import Record, moment, show
from holdfast.cli.store_session import on_store

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.client.pause_control import KindControl, PauseState, QueueControl
    from holdfast.jobs.control_port import WorkerRecord

QUEUES = typer.Typer(name="queues", help="List, pause and resume queues.", rich_help_panel=FLEET)
KINDS = typer.Typer(name="kinds", help="List, pause and resume kinds.", rich_help_panel=FLEET)
WORKERS = typer.Typer(
    name="workers", help="List workers, and let one finish.", rich_help_panel=FLEET
)
APPS = (QUEUES, KINDS, WORKERS)
_PAUSE_COLUMNS = ("name", "state", "scheduled", "ready", "processing", "paused_at")
_WORKER_COLUMNS = ("id", "running", "finish_requested_at")


@QUEUES.command("list")
def list_queues(as_json: AsJson = False, database: Database = None) -> int:
    """List the queues that have jobs or are paused, and how many of their jobs are unfinished."""
    states = on_store(database, lambda engine: engine.queues.list())
    show(pause_records(states), _PAUSE_COLUMNS, as_json=as_json)
    return 0


@QUEUES.command("pause")
def pause_queue(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Claim no more jobs of a queue, across restarts; what runs is finished."""
    return _pause(names, database, "queues", "pause", as_json=as_json)


@QUEUES.command("resume")
def resume_queue(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Claim jobs of a queue again."""
    return _pause(names, database, "queues", "resume", as_json=as_json)


@KINDS.command("list")
def list_kinds(as_json: AsJson = False, database: Database = None) -> int:
    """List the kinds that have jobs or are paused, and how many of their jobs are unfinished."""
    states = on_store(database, lambda engine: engine.kinds.list())
    show(pause_records(states), _PAUSE_COLUMNS, as_json=as_json)
    return 0


@KINDS.command("pause")
def pause_kind(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Claim no more jobs of a kind, across restarts; what runs is finished."""
    return _pause(names, database, "kinds", "pause", as_json=as_json)


@KINDS.command("resume")
def resume_kind(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Claim jobs of a kind again."""
    return _pause(names, database, "kinds", "resume", as_json=as_json)


@WORKERS.command("list")
def list_workers(as_json: AsJson = False, database: Database = None) -> int:
    """List the workers that are alive or have jobs."""
    workers = on_store(database, lambda engine: engine.workers.list())
    show(worker_records(workers), _WORKER_COLUMNS, as_json=as_json)
    return 0


@WORKERS.command()
def finish(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Ask a worker to claim no more jobs, and to end after those it runs."""

    async def work(engine: "Engine") -> list[Outcome]:
        async def change(name: str) -> tuple[str, Record]:
            (record,) = worker_records([await engine.workers.finish(name)])
            return f"{name} ends after the {record['running']} jobs that it runs", record

        return await each(engine, "workers.finish", names, change)

    return show_outcomes(on_store(database, work), as_json=as_json)


def pause_records(states: "Iterable[PauseState]") -> list[Record]:
    """Return queues or kinds as records."""
    return [
        {
            "name": state.name,
            "state": "paused" if state.paused else "active",
            "paused_at": moment(state.paused_at),
            "scheduled": state.scheduled,
            "ready": state.ready,
            "processing": state.processing,
        }
        for state in states
    ]


def worker_records(workers: "Iterable[WorkerRecord]") -> list[Record]:
    """Return workers as records."""
    return [
        {
            "id": worker.id,
            "running": worker.running,
            "finish_requested_at": moment(worker.finish_requested_at),
        }
        for worker in workers
    ]


def _pause(
    names: list[str],
    database: str | None,
    scope: Literal["queues", "kinds"],
    verb: Literal["pause", "resume"],
    *,
    as_json: bool,
) -> int:
    async def work(engine: "Engine") -> list[Outcome]:
        control: QueueControl | KindControl
        control = engine.queues if scope == "queues" else engine.kinds

        async def change(name: str) -> tuple[str, Record]:
            pausing = control.pause(name) if verb == "pause" else control.resume(name)
            (record,) = pause_records([await pausing])
            waiting = f"{record['ready']} jobs ready, {record['processing']} running"
            return f"{name} is {record['state']}: {waiting}", record

        return await each(engine, f"{scope}.{verb}", names, change)

    return show_outcomes(on_store(database, work), as_json=as_json)
