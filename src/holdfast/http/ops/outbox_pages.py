"""The messages of the outbox: what waits, what failed, requeue and discard."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response

from holdfast.http.api_errors import refusing_cursors
from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Change, Confirmation, Confirmed, Frame
from holdfast.http.ops_schemas import Text
from holdfast.outbox import MessageStatus, Outbox

_FAILED = "/outbox?status=failed"
Identifier = Annotated[Text, Form(alias="id", min_length=1, max_length=200)]


def add_outbox_pages(router: APIRouter, frame: Frame, outbox: Outbox) -> None:
    """Add the page of the outbox, and what can be done to a failed message."""

    @router.get("/outbox")
    async def show(
        request: Request,
        status: MessageStatus | None = None,
        cursor: Annotated[str, Query(max_length=500)] = "",
    ) -> Response:
        with refusing_cursors():
            page = await outbox.list(status, cursor=cursor or None)
        older = {"status": str(status or ""), "cursor": page.next_cursor or ""}
        return await frame.page(
            request,
            "outbox.html",
            messages=page.messages,
            backlog=await outbox.backlog(),
            chosen=status,
            statuses=tuple(MessageStatus),
            older=f"/outbox?{_given(older)}" if page.next_cursor else "",
        )

    @router.post("/outbox/requeue", dependencies=FULL_ACCESS)
    async def requeue(request: Request, message_id: Identifier) -> Response:
        change = Change("outbox.requeue", message_id, _FAILED, "requeued")
        return await frame.do(request, outbox.requeue(message_id), change)

    @router.post("/outbox/discard", dependencies=FULL_ACCESS)
    async def discard(
        request: Request, message_id: Identifier, confirmed: Confirmed = ""
    ) -> Response:
        if not confirmed:
            return frame.confirm(
                request,
                Confirmation(
                    title="Discard this message?",
                    words=f"Message {message_id} is never published. This cannot be undone.",
                    action="/outbox/discard",
                    label="Discard",
                    fields={"id": message_id},
                    back=_FAILED,
                ),
            )
        change = Change("outbox.discard", message_id, _FAILED, "discarded")
        return await frame.do(request, outbox.discard(message_id), change)


def _given(values: dict[str, str]) -> str:
    return urlencode({key: value for key, value in values.items() if value})
