"""The live stream of one's own jobs' changes."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from holdfast.http.sessions import Owner
from holdfast.http.site import site_of
from holdfast.http.streams import EventStream, messages

router = APIRouter(prefix="/api", tags=["jobs"])


@router.get(
    "/events",
    response_class=Response,
    responses={200: {"description": "Events.", "content": {"text/event-stream": {}}}},
)
async def stream(
    request: Request,
    owner: Owner,
    last_event_id: Annotated[str | None, Header()] = None,
    after: Annotated[str | None, Query(max_length=30)] = None,
) -> Response:
    """Stream what happens to one's own jobs, from `Last-Event-ID` (or `after`) on."""
    site = site_of(request)
    site.streams.enter(owner)
    seen = _sequence(last_event_id) if last_event_id is not None else _sequence(after)
    return EventStream(site.streams, owner, messages(site, owner, seen))


def _sequence(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    return int(text)
