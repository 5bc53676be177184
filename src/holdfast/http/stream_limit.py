"""The number of open streams of each owner, and the response that counts as one."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError


class StreamLimit:
    """Count the open streams of each owner."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def enter(self, owner: str) -> None:
        """Take a place.

        Raises:
            ApiError: `RATE_LIMITED`; the owner has as many as allowed.
        """
        if self._open[owner] >= self._most:
            raise ApiError(ErrorCode.RATE_LIMITED, headers={"retry-after": "5"})
        self._open[owner] += 1

    @contextmanager
    def leaving(self, owner: str) -> Iterator[None]:
        """Release the place at the end of the block."""
        try:
            yield
        finally:
            self._open[owner] -= 1
            if self._open[owner] <= 0:
                del self._open[owner]


class EventStream(StreamingResponse):
    """An answer that lasts until the client disconnects or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, streams: StreamLimit, owner: str, content: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(content, headers=headers)
        self._streams = streams
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and release its place however that ends."""
        with self._streams.leaving(self._owner):
            await super().__call__(scope, receive, send)
