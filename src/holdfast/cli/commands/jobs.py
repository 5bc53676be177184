"""`holdfast jobs`: list, show, retry and cancel jobs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from holdfast.cli.options import (
    WORK,
    AsJson,
    Database,
    ErrorPart,
    JobIds,
    Kinds,
    Limit,
    OfApps,
)
from holdfast.cli.outcomes import Outcome, each, show_outcomes
from holdfast.cli.output import Record, note, printable, show, show_json, show_one
from holdfast.cli.records import JOB_COLUMNS, attempt_record, history, job_filter, job_record
from holdfast.cli.store_session import at_least_one, on_store

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.history import Attempt, JobEvent
    from holdfast.jobs.model import Job

APP = typer.Typer(
    name="jobs", help="List, show, retry and cancel jobs of all owners.", rich_help_panel=WORK
)
APPS = (APP,)
_ATTEMPT_COLUMNS = ("number", "started_at", "duration", "outcome", "retry_after", "error")

Status = Literal["uploaded", "queued", "processing", "complete", "failed", "cancelled"]


@APP.command("list")
def list_jobs(
    status: Annotated[
        Status | None,
        typer.Option(metavar="STATUS", help=f"Only these: {', '.join(get_args(Status))}."),
    ] = None,
    kind: Kinds = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Of this queue.")] = None,
    downstream: Annotated[
        str | None, typer.Option(metavar="NAME", help="That call this downstream.")
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Of this owner.")] = None,
    error: ErrorPart = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """List jobs, newest first."""
    from holdfast.jobs.model import JobStatus

    where = replace(
        job_filter(kind, error),
        statuses=() if status is None else (JobStatus(status),),
        queue=queue,
        downstream=downstream,
        owner=owner,
    )
    at_least_one("--limit", limit)
    page = on_store(database, lambda engine: engine.list(where, limit=limit))
    show([job_record(job) for job in page.jobs], JOB_COLUMNS, as_json=as_json)
    if page.next_cursor is not None and not as_json:
        note(f"these are the newest {limit}; --limit shows more")
    return 0


@APP.command("show")
def show_job(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Show one job and its attempts, with the traceback of the last one that failed."""
    print_job(*on_store(database, lambda engine: read_job(engine, job_id)), as_json=as_json)
    return 0


@APP.command()
def retry(
    ids: JobIds,
    apps: OfApps = None,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Requeue failed jobs with a fresh number of attempts."""

    async def work(engine: "Engine") -> list[Outcome]:
        async def change(job_id: str) -> tuple[str, Record]:
            return f"requeued {job_id}", job_record(await engine.retry(job_id))

        return await each(engine, "jobs.retry", ids, change)

    return show_outcomes(on_store(database, work, apps=apps or ()), as_json=as_json)


@APP.command()
def cancel(ids: JobIds, as_json: AsJson = False, database: Database = None) -> int:
    """Cancel unfinished jobs; a running one is asked to stop."""

    async def work(engine: "Engine") -> list[Outcome]:
        async def change(job_id: str) -> tuple[str, Record]:
            job = await engine.cancel(job_id)
            done = "cancelled" if job.status.finished else "asked to stop"
            return f"{done} {job_id}", job_record(job)

        return await each(engine, "jobs.cancel", ids, change)

    return show_outcomes(on_store(database, work), as_json=as_json)


async def read_job(
    engine: "Engine", job_id: str
) -> "tuple[Job, tuple[Attempt, ...], tuple[JobEvent, ...]]":
    """Return a job, its attempts and its events.

    Raises:
        UnknownJob: there is no such job.
    """
    from holdfast.jobs.exceptions import UnknownJob

    job = await engine.get(job_id)
    if job is None:
        raise UnknownJob(job_id)
    return job, await engine.attempts(job_id), await engine.events(job_id)


def print_job(
    job: "Job", attempts: "Sequence[Attempt]", events: "Sequence[JobEvent]", *, as_json: bool
) -> None:
    """Print a job: its fields, then its attempts, then the last traceback; or all of it as JSON."""
    if as_json:
        show_json(history(job, attempts, events))
        return
    show_one({name: value for name, value in job_record(job).items() if value is not None})
    if attempts:
        print()
        show([attempt_record(attempt) for attempt in attempts], _ATTEMPT_COLUMNS)
    tracebacks = [attempt.traceback for attempt in attempts if attempt.traceback]
    if tracebacks:
        print(f"\n{printable(tracebacks[-1])}")
