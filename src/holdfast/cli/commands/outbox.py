"""`holdfast outbox`: list, requeue and discard messages of the outbox."""

import json
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from holdfast.cli.options import WORK, AsJson, Database, DryRun, Limit, Yes
from holdfast.cli.outcomes import Outcome, each, show_outcomes
from holdfast.cli.output import Record, confirm, moment, note, show
from holdfast.cli.store_session import at_least_one, on_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.bootstrap import Engine
    from holdfast.outbox import OutboxMessage

APP = typer.Typer(
    name="outbox", help="List, requeue and discard messages of the outbox.", rich_help_panel=WORK
)
APPS = (APP,)
_COLUMNS = (
    "id", "created_at", "status", "retry_count", "message_type", "aggregate_id", "error_message",
)  # fmt: skip
_MOST = 10_000
"""Most messages that one command changes."""

Status = Literal["pending", "published", "failed"]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Default: all failed ones.", show_default=False),
]


@APP.command("list")
def list_messages(
    database: Database = None,
    status: Annotated[
        Status | None,
        typer.Option(metavar="STATUS", help=f"Only these: {', '.join(get_args(Status))}."),
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """List messages, newest first."""
    from holdfast.outbox import MessageStatus

    wanted = None if status is None else MessageStatus(status)
    at_least_one("--limit", limit)
    page = on_store(database, lambda engine: engine.outbox.list(wanted, limit=limit))
    show([_record(message) for message in page.messages], _COLUMNS, as_json=as_json)
    if page.next_cursor is not None and not as_json:
        note(f"these are the newest {limit}; --limit shows more")
    return 0


@APP.command()
def requeue(
    ids: Ids = None,
    database: Database = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Let failed messages be published after all, with a fresh number of tries."""
    return _change(ids, database, "requeue", dry_run=dry_run, yes=yes, as_json=as_json)


@APP.command()
def discard(
    ids: Ids = None,
    database: Database = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Delete failed messages for good."""
    return _change(ids, database, "discard", dry_run=dry_run, yes=yes, as_json=as_json)


def _change(
    ids: "Sequence[str] | None",
    database: str | None,
    verb: Literal["requeue", "discard"],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    chosen = list(ids or ()) or on_store(database, _failed)
    if dry_run:
        print(f"would {verb} {_counted(len(chosen))}")
        return 0
    asked = not ids or verb == "discard"
    if asked and chosen and not confirm(f"{verb} {_counted(len(chosen))}?", yes=yes):
        return 1

    async def work(engine: "Engine") -> list[Outcome]:
        async def change(message_id: str) -> tuple[str, Record]:
            outbox = engine.outbox
            if verb == "requeue":
                return f"requeued {message_id}", _record(await outbox.requeue(message_id))
            return f"discarded {message_id}", _record(await outbox.discard(message_id))

        return await each(engine, f"outbox.{verb}", chosen, change)

    return show_outcomes(on_store(database, work), as_json=as_json)


async def _failed(engine: "Engine") -> list[str]:
    from holdfast.outbox import MessageStatus

    page = await engine.outbox.list(MessageStatus.FAILED, limit=_MOST)
    return [message.id for message in page.messages]


def _counted(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"


def _record(message: "OutboxMessage") -> Record:
    return {
        "id": message.id,
        "aggregate_id": message.aggregate_id,
        "message_type": message.message_type,
        "payload": json.loads(message.payload),
        "status": message.status,
        "retry_count": message.retry_count,
        "error_message": message.error_message,
        "created_at": moment(message.created_at),
        "processed_at": moment(message.processed_at),
        "due_at": moment(message.due_at),
        "headers": None if message.headers is None else json.loads(message.headers),
    }
