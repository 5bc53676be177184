"""Clients that disconnect: stop what they asked for, and answer one that may still be sending."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi.responses import Response
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

_LINGER_SECONDS = 1.0
_LINGER_BYTES = 4 * 1024 * 1024


class DisconnectingResponse(Response):
    """Answer before the body has been read, and do not read the rest.

    A connection that is closed with bytes unread is reset, and a reset may overtake the answer. So
    the answer goes out whole, then a little is read and thrown away until the caller has seen it,
    and only then the connection ends.
    """

    def __init__(self, status: int, body: bytes, headers: dict[str, str], request: Request) -> None:
        super().__init__(body, status, {**headers, "connection": "close"}, "application/json")
        # Starlette's own mark: whether the stream of the body has been read to its end.
        self._unread = not getattr(request, "_stream_consumed", False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, linger, and end."""
        del scope
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        await send(start)
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        if self._unread:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_SECONDS):
                    await _discard(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` gives; cancel it when the client disconnects. The body has been read.

    Raises:
        ClientDisconnect: the client is gone.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _discard(receive: Receive) -> None:
    size = 0
    while size < _LINGER_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return
        size += len(message.get("body", b""))
