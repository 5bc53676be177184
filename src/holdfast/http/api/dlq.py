"""What operators look at and do with the dead letters of a broker: the words of `holdfast dlq`.

Dead letters of jobs are elsewhere, below `/api/dead-letters`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError
from holdfast.http.audited import OpsRoute, describe_change
from holdfast.http.dlq_port import DlqMessage, DlqTools
from holdfast.http.schemas import ERROR_ANSWERS, Model
from holdfast.http.served_app import state_of
from holdfast.outbox import MessageRefused, PublisherMisconfigured, PublisherUnavailable

router = APIRouter(prefix="/api/dlq", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS)

DEFAULT_QUEUE = "grading.dlq"
_NO_BROKER = (
    "There is no broker: RABBITMQ_URL is not set. Dead letters of jobs are at /api/dead-letters."
)
_NO_MESSAGE = "There is no such message."


class DlqMessageOut(Model):
    """A message without its body; its headers say why it is here."""

    id: str
    type: str | None
    original_queue: str | None
    request_id: str | None
    submission_id: str | None
    failure_reason: str | None
    attempts_made: int | None
    last_error: str | None
    timestamp: str | None


class ShownDlqMessageOut(DlqMessageOut):
    """A message with its original body, as text, and all of its headers."""

    headers: dict[str, Any]
    body: str


class DlqAnswer(Model):
    """The messages of one queue, oldest first."""

    queue: str
    messages: list[DlqMessageOut]


class DlqMessageAnswer(Model):
    """What was requeued or discarded."""

    message: DlqMessageOut


class ShownDlqMessageAnswer(Model):
    """One message."""

    message: ShownDlqMessageOut


QueueName = Annotated[
    str, Query(min_length=1, max_length=200, description="The dead-letter queue.")
]


@router.get("")
async def list_dlq(
    request: Request,
    queue: QueueName = DEFAULT_QUEUE,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> DlqAnswer:
    """List the messages of a dead-letter queue; they stay there."""
    with _refusals():
        found = await _tools(request, queue).list(limit)
    messages = [DlqMessageOut.model_validate(_fields(message)) for message in found]
    return DlqAnswer(queue=queue, messages=messages)


@router.get("/{message_id}")
async def show_dlq_message(
    request: Request, message_id: str, queue: QueueName = DEFAULT_QUEUE
) -> ShownDlqMessageAnswer:
    """Show one message with its body; it stays there."""
    with _refusals():
        found = await _tools(request, queue).get(message_id)
        if found is None:
            raise LookupError
    shown = {
        **_fields(found),
        # AMQP knows times and bytes, which JSON does not.
        "headers": json.loads(json.dumps(dict(found.headers), default=str)),
        "body": found.body.decode(errors="replace"),
    }
    return ShownDlqMessageAnswer(message=ShownDlqMessageOut.model_validate(shown))


@router.post("/{message_id}/requeue")
async def requeue_dlq_message(
    request: Request,
    message_id: str,
    queue: QueueName = DEFAULT_QUEUE,
    to: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
) -> DlqMessageAnswer:
    """Publish a message again with its original body and a fresh number of attempts.

    It goes to the queue `to`; by default to the one that it was meant for.
    """
    with _refusals():
        found = await _tools(request, queue).requeue(message_id, to=to)
    describe_change(request, queue=queue, to=to or found.original_queue)
    return DlqMessageAnswer(message=DlqMessageOut.model_validate(_fields(found)))


@router.delete("/{message_id}")
async def discard_dlq_message(
    request: Request, message_id: str, queue: QueueName = DEFAULT_QUEUE
) -> DlqMessageAnswer:
    """Delete a message for good."""
    with _refusals():
        found = await _tools(request, queue).discard(message_id)
    describe_change(request, queue=queue)
    return DlqMessageAnswer(message=DlqMessageOut.model_validate(_fields(found)))


def _tools(request: Request, queue: str) -> DlqTools:
    source = state_of(request).dlq
    if source is None:
        raise ApiError(ErrorCode.INVALID_STATE, _NO_BROKER)
    return source(queue)


@contextmanager
def _refusals() -> Iterator[None]:
    """Answer what the tools raise; operators may read the broker's own words."""
    try:
        yield
    except LookupError:
        raise ApiError(ErrorCode.VALIDATION_ERROR, _NO_MESSAGE, status=404) from None
    except (PublisherMisconfigured, MessageRefused) as error:
        raise ApiError(ErrorCode.INVALID_STATE, str(error)) from error
    except PublisherUnavailable as error:
        raise ApiError(
            ErrorCode.GW_UNAVAILABLE, str(error), headers={"retry-after": "1"}
        ) from error


def _fields(message: DlqMessage) -> dict[str, object]:
    headers = message.headers
    texts = ("requestId", "submissionId", "failureReason", "lastError", "timestamp")
    made = headers.get("attemptsMade")
    return {
        "id": message.message_id,
        "type": message.message_type,
        "originalQueue": message.original_queue,
        "attemptsMade": made if isinstance(made, int) else None,
        **{name: None if headers.get(name) is None else str(headers[name]) for name in texts},
    }
