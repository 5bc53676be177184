"""`holdfast dead`: list, show, requeue and discard dead letters."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.audit_trail import record
from holdfast.cli.commands.jobs import print_job, read_job
from holdfast.cli.options import (
    WORK,
    AsJson,
    Database,
    DryRun,
    ErrorPart,
    Kinds,
    Limit,
    OfApps,
    Yes,
)
from holdfast.cli.output import Record, confirm, moment, note, show, show_json
from holdfast.cli.progress import ProgressLine
from holdfast.cli.records import job_filter
from holdfast.cli.store_session import at_least_one, on_store
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.client.dead_letters import Requeued
    from holdfast.jobs.views import DeadLetter, JobFilter

APP = typer.Typer(
    name="dead",
    help="List, show, requeue and discard dead letters: jobs that wait for a person.",
    rich_help_panel=WORK,
)
APPS = (APP,)
_COLUMNS = ("id", "kind", "reason", "attempts_made", "failed_at", "error")
_GROUP_COLUMNS = ("count", "kind", "code", "message", "newest_at", "example_id")
_PAGE = 500

Group = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Of this group, as 'dead list --groups' names it."),
]
SomeIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Default: all that match.", show_default=False),
]


@APP.command("list")
def list_letters(
    kind: Kinds = None,
    error: ErrorPart = None,
    group: Group = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Count those with the same error, in all.")
    ] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """List dead letters, newest failure first."""
    if groups:
        return _list_groups(database, as_json=as_json)
    where = job_filter(kind, error, group)
    at_least_one("--limit", limit)
    letters, more = on_store(database, lambda engine: engine.dead_letters.list(where, limit=limit))
    show([_record(letter) for letter in letters], _COLUMNS, as_json=as_json)
    if more is not None and not as_json:
        note(f"these are the newest {limit}; --limit shows more, --groups counts all")
    return 0


@APP.command("show")
def show_letter(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Show one dead letter and its attempts, with the traceback of the last one that failed."""
    job, attempts, events = on_store(database, lambda engine: read_job(engine, job_id))
    if not job.is_dead_letter:
        raise ValueError(f"job {job_id} is {job.status} and not a dead letter")
    print_job(job, attempts, events, as_json=as_json)
    return 0


@APP.command()
def requeue(
    ids: SomeIds = None,
    kind: Kinds = None,
    error: ErrorPart = None,
    group: Group = None,
    rate: Annotated[
        float, typer.Option(metavar="N", help="Most jobs per second; 0 sets no limit.")
    ] = 100.0,
    apps: OfApps = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Requeue dead letters at a pace; count them first, and ask.

    Ctrl-C ends it where it is: what was requeued stays so, and the rest are still dead letters.
    """
    if rate < 0:
        raise UsageError(f"--rate must be 0 or more, got {rate:g}")
    where = _filters(ids, job_filter(kind, error, group))

    async def count(engine: "Engine") -> "Requeued":
        return await _requeue(engine, where, rate, dry_run=True)

    counted = on_store(database, count, apps=apps or ())
    if dry_run:
        return _show_requeued(counted, ids, as_json=as_json)
    question = f"requeue {_counted(counted.requeued)}?"
    if not ids and counted.requeued and not confirm(question, yes=yes):
        return 1

    async def run(engine: "Engine") -> "Requeued":
        chosen = _described(where)
        total = counted.matched
        await record(engine, "dead-letters.requeue", filter=chosen, total=total, rate=rate or None)
        return await _requeue(engine, where, rate, total=total)

    return _show_requeued(on_store(database, run, apps=apps or ()), ids, as_json=as_json)


@APP.command()
def discard(
    ids: SomeIds = None,
    kind: Kinds = None,
    error: ErrorPart = None,
    group: Group = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Remove jobs from the dead letters; they stay failed, until retention deletes them."""
    where = _filters(ids, job_filter(kind, error, group))

    async def find(engine: "Engine") -> list[str]:
        return [found for each in where for found in await _ids(engine, each)]

    async def run(engine: "Engine") -> int:
        done = 0
        await record(engine, "dead-letters.discard", filter=_described(where), total=len(found))
        with ProgressLine("discarded", len(found)) as progress:
            for start in range(0, len(found), _PAGE):
                done += await engine.dead_letters.discard(found[start : start + _PAGE])
                progress.update(done)
        return done

    found = on_store(database, find)
    if not dry_run and found and not confirm(f"discard {_counted(len(found))}?", yes=yes):
        return 1
    done = 0 if dry_run or not found else on_store(database, run)
    if as_json:
        show_json({"matched": len(found), "discarded": done, "dry_run": dry_run})
    elif dry_run:
        print(f"would discard {_counted(len(found))}")
    else:
        print(f"discarded {_counted(done)}")
    return _exit_code(ids, len(found))


def _list_groups(database: str | None, *, as_json: bool) -> int:
    found = on_store(database, lambda engine: engine.dead_letters.groups())
    records = [
        {
            "count": group.count,
            "kind": group.kind,
            "code": group.code,
            "message": group.message,
            "newest_at": moment(group.newest_at),
            "example_id": group.example_id,
        }
        for group in found
    ]
    show(records, _GROUP_COLUMNS, as_json=as_json)
    return 0


def _filters(ids: Sequence[str] | None, where: "JobFilter") -> "list[JobFilter]":
    """Return a filter for each id, or the one that selects what matches."""
    return [replace(where, id=each) for each in dict.fromkeys(ids or ())] or [where]


def _described(where: "Sequence[JobFilter]") -> dict[str, object]:
    """Return what was chosen, for the audit log: the fields of the filter that are set."""
    chosen = {name: value for name, value in asdict(where[0]).items() if value}
    if where[0].id is not None:
        chosen["id"] = [each.id for each in where]
    return chosen


async def _requeue(
    engine: "Engine",
    where: "Sequence[JobFilter]",
    rate: float,
    *,
    total: int | None = None,
    dry_run: bool = False,
) -> "Requeued":
    """Requeue what `where` select, one filter after the other, and return the sum."""
    from holdfast.jobs.client.dead_letters import Requeued

    done = so_far = Requeued(0, 0, {}, dry_run)
    label = "counted" if dry_run else "requeued"
    with ProgressLine(label, total) as progress:

        def show_progress(now: "Requeued") -> None:
            nonlocal so_far
            so_far = _sum(done, now)
            progress.update(so_far.matched)

        try:
            for each in where:
                done = so_far = _sum(
                    done,
                    await engine.dead_letters.requeue(
                        each, dry_run=dry_run, rate=rate or None, progress=show_progress
                    ),
                )
        except asyncio.CancelledError:  # Ctrl-C
            if not dry_run:
                note(f"stopped: {_counted(so_far.requeued)} requeued; run it again for the rest")
                await record(engine, "dead-letters.stop", done=so_far.requeued, total=total)
            raise
    return done


def _sum(one: "Requeued", other: "Requeued") -> "Requeued":
    return replace(
        one,
        matched=one.matched + other.matched,
        requeued=one.requeued + other.requeued,
        skipped=dict(Counter(one.skipped) + Counter(other.skipped)),
    )


def _show_requeued(done: "Requeued", ids: Sequence[str] | None, *, as_json: bool) -> int:
    if as_json:
        show_json(
            {
                "matched": done.matched,
                "requeued": done.requeued,
                "skipped": done.skipped,
                "dry_run": done.dry_run,
            }
        )
    else:
        verb = "would requeue" if done.dry_run else "requeued"
        skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(done.skipped.items()))
        print(f"{verb} {_counted(done.requeued)}{f'; skipped: {skipped}' if skipped else ''}")
    return _exit_code(ids, done.matched)


def _exit_code(ids: Sequence[str] | None, matched: int) -> int:
    missing = len(set(ids or ())) - matched
    if missing > 0:
        note(f"{missing} of the ids are not those of dead letters")
    return 1 if missing > 0 else 0


async def _ids(engine: "Engine", where: "JobFilter") -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = await engine.dead_letters.list(where, cursor=cursor, limit=_PAGE)
        found += [letter.job.id for letter in page]
        if cursor is None:
            return found


def _counted(number: int) -> str:
    return "1 dead letter" if number == 1 else f"{number} dead letters"


def _record(letter: "DeadLetter") -> Record:
    return {
        "id": letter.job.id,
        "kind": letter.job.kind,
        "queue": letter.job.queue,
        "owner": letter.job.owner,
        "reason": letter.reason,
        "attempts_made": letter.attempts_made,
        "failed_at": moment(letter.at),
        "error": f"{letter.last_error.code}: {letter.last_error.message}",
    }
