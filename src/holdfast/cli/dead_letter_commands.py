"""Commands for a dead-letter queue of RabbitMQ: `dlq list`, `show`, `requeue` and `discard`."""

import asyncio
import json
import os
from collections.abc import Coroutine
from typing import Any

from holdfast.cli.relay_setup import BROKER
from holdfast.cli.tables import one_line, print_rows
from holdfast.cli.usage import UsageError
from holdfast.messaging import DeadLetterQueue, DeadMessage, UnknownDeadMessage
from holdfast.settings import Environment

_COLUMNS = ("id", "timestamp", "originalQueue", "failureReason", "attemptsMade", "lastError")


def list_letters(queue: str, *, limit: int = 100, as_json: bool = False) -> int:
    """Print the messages of a queue, oldest first; they stay there."""
    letters = _run(_tools(queue).list(limit))
    if as_json:
        print(json.dumps([_as_json(letter) for letter in letters], indent=2, default=str))
    else:
        print_rows([_COLUMNS, *(_cells(letter) for letter in letters)])
    return 0


def show(queue: str, message_id: str) -> int:
    """Print one message with its body and headers, as JSON."""
    letter = _run(_tools(queue).get(message_id))
    if letter is None:
        raise UnknownDeadMessage(f"{queue} holds no message {message_id!r}")
    print(json.dumps(_as_json(letter), indent=2, default=str))
    return 0


def requeue(queue: str, message_id: str, *, to: str | None = None) -> int:
    """Publish a message again with its original body and a fresh number of attempts."""
    letter = _run(_tools(queue).requeue(message_id, to=to))
    print(f"requeued {letter.message_id} to {to or letter.original_queue}")
    return 0


def discard(queue: str, message_id: str, *, confirmed: bool) -> int:
    """Delete a message for good."""
    if not confirmed:
        raise UsageError(f"this deletes message {message_id} for good; add --yes")
    letter = _run(_tools(queue).discard(message_id))
    print(f"discarded {letter.message_id}")
    return 0


def _tools(queue: str) -> DeadLetterQueue:
    url = Environment(os.environ).text(BROKER)
    if url is None:
        raise UsageError(f"set {BROKER} to the address of the broker")
    return DeadLetterQueue(url, queue)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def _cells(letter: DeadMessage) -> tuple[str, ...]:
    known = {**letter.headers, "id": letter.message_id, "originalQueue": letter.original_queue}
    return tuple(one_line(known.get(name)) for name in _COLUMNS)


def _as_json(letter: DeadMessage) -> dict[str, object]:
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
