"""`holdfast dlq`: look after a dead-letter queue of RabbitMQ."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.audit_trail import record
from holdfast.cli.options import WORK, AsJson, Limit
from holdfast.cli.output import note, show, show_json
from holdfast.cli.store_session import on_store
from holdfast.cli.usage import NoDatabase, UsageError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.messaging import DeadLetterQueue, DeadMessage

APP = typer.Typer(
    name="dlq", help="Look after a dead-letter queue of RabbitMQ.", rich_help_panel=WORK
)
APPS = (APP,)
_COLUMNS = ("id", "timestamp", "originalQueue", "failureReason", "attemptsMade", "lastError")

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Such as grading.dlq.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's id.")]


@APP.command("list")
def list_letters(queue: Queue, limit: Limit = 100, as_json: AsJson = False) -> int:
    """List messages, oldest first; they stay there."""
    letters = asyncio.run(_tools(queue).list(limit))
    if as_json:
        show_json([_content(letter) for letter in letters])
    else:
        show([_fields(letter) for letter in letters], _COLUMNS)
    return 0


@APP.command("show")
def show_letter(queue: Queue, message_id: MessageId) -> int:
    """Print one message with its headers and body, as JSON."""
    from holdfast.messaging import UnknownDeadMessage

    letter = asyncio.run(_tools(queue).get(message_id))
    if letter is None:
        raise UnknownDeadMessage(f"{queue} holds no message {message_id!r}")
    show_json(_content(letter))
    return 0


@APP.command()
def requeue(
    queue: Queue,
    message_id: MessageId,
    to: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Default: where it came from.")
    ] = None,
) -> int:
    """Publish a message again, with its original body and a fresh number of attempts."""
    letter = _change("dlq.requeue", queue, lambda tools: tools.requeue(message_id, to=to))
    print(f"requeued {letter.message_id} to {to or letter.original_queue}")
    return 0


@APP.command()
def discard(
    queue: Queue,
    message_id: MessageId,
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
) -> int:
    """Delete a message for good."""
    if not yes:
        raise UsageError(f"this deletes message {message_id} for good; add --yes")
    letter = _change("dlq.discard", queue, lambda tools: tools.discard(message_id))
    print(f"discarded {letter.message_id}")
    return 0


def _change(
    action: str, queue: str, change: "Callable[[DeadLetterQueue], Awaitable[DeadMessage]]"
) -> "DeadMessage":
    """Change a queue, and record it in the store of the settings where there is one."""

    async def changed() -> "DeadMessage":
        return await change(_tools(queue))

    async def recorded(engine: "Engine") -> "DeadMessage":
        letter = await changed()
        await record(engine, action, letter.message_id, queue=queue)
        return letter

    try:
        return on_store(None, recorded)
    except NoDatabase:
        note("there is no store here, so the audit log does not have this")
        return asyncio.run(changed())


def _tools(queue: str) -> "DeadLetterQueue":
    from holdfast.cli.relay_setup import BROKER
    from holdfast.messaging import DeadLetterQueue
    from holdfast.settings import Environment

    url = Environment(os.environ).text(BROKER)
    if url is None:
        raise UsageError(f"set {BROKER} to the address of the broker")
    return DeadLetterQueue(url, queue)


def _fields(letter: "DeadMessage") -> dict[str, object]:
    return {**letter.headers, "id": letter.message_id, "originalQueue": letter.original_queue}


def _content(letter: "DeadMessage") -> dict[str, object]:
    try:
        body = json.loads(letter.body)
    except ValueError:
        body = letter.body.decode(errors="replace")
    return {
        "id": letter.message_id,
        "type": letter.message_type,
        "headers": dict(letter.headers),
        "body": body,
    }
