"""What operators look at and do with the messages of the outbox."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from holdfast.http.api_errors import refusing_cursors
from holdfast.http.audited import OpsRoute
from holdfast.http.schemas import ERROR_ANSWERS, Model, Moment
from holdfast.http.served_app import state_of
from holdfast.outbox import MessageStatus, Outbox, OutboxMessage

router = APIRouter(
    prefix="/api/outbox", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)


class MessageOut(Model):
    """A message, without its payload: that belongs to its receiver."""

    id: str
    aggregate_id: str
    message_type: str
    status: MessageStatus
    retry_count: int
    error_message: str | None
    created_at: Moment
    due_at: Moment
    processed_at: Moment | None


class BacklogOut(Model):
    """What waits: counted up to 10000, and the age in seconds of the oldest pending message."""

    pending: int
    failed: int
    lag: float


class MessagesAnswer(Model):
    """Messages, newest first."""

    messages: list[MessageOut]
    backlog: BacklogOut
    next_cursor: str | None


class MessageAnswer(Model):
    """One message."""

    message: MessageOut


class MessageQuery(Model):
    """Which messages to list."""

    status: MessageStatus | None = None
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


@router.get("")
async def list_messages(
    request: Request, asked: Annotated[MessageQuery, Query()]
) -> MessagesAnswer:
    """List the messages of the outbox."""
    outbox = _outbox(request)
    with refusing_cursors():
        page = await outbox.list(asked.status, cursor=asked.cursor or None, limit=asked.limit)
    return MessagesAnswer(
        messages=[MessageOut.model_validate(message) for message in page.messages],
        backlog=BacklogOut.model_validate(await outbox.backlog()),
        next_cursor=page.next_cursor,
    )


@router.post("/{message_id}/requeue")
async def requeue_message(request: Request, message_id: str) -> MessageAnswer:
    """Let a failed message be published after all."""
    return _answer(await _outbox(request).requeue(message_id))


@router.delete("/{message_id}")
async def discard_message(request: Request, message_id: str) -> MessageAnswer:
    """Delete a failed message for good."""
    return _answer(await _outbox(request).discard(message_id))


def _outbox(request: Request) -> Outbox:
    outbox = state_of(request).outbox
    assert outbox is not None  # these routes are there only with one
    return outbox


def _answer(message: OutboxMessage) -> MessageAnswer:
    return MessageAnswer(message=MessageOut.model_validate(message))
