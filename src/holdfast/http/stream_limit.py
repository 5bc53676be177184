"""The number of open streams of each session and address, and the response that counts as one."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError
from holdfast.http.limit_keys import LimitKeys


class StreamLimit:
    """Count the open streams: at most `most` of a session, `most_of_address` of an address."""

    def __init__(self, most: int, most_of_address: int) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._open: Counter[str] = Counter()

    def enter(self, keys: LimitKeys) -> None:
        """Take a place.

        Raises:
            ApiError: `RATE_LIMITED`; the session or its address has as many as allowed.
        """
        limits = zip(keys, (self._most, self._most_of_address), strict=True)
        if any(key is not None and self._open[key] >= most for key, most in limits):
            raise ApiError(ErrorCode.RATE_LIMITED, headers={"retry-after": "5"})
        self._open.update(key for key in keys if key is not None)

    @contextmanager
    def leaving(self, keys: LimitKeys) -> Iterator[None]:
        """Release the place at the end of the block."""
        try:
            yield
        finally:
            for key in keys:
                if key is not None:
                    self._leave(key)

    def _leave(self, key: str) -> None:
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]


class EventStream(StreamingResponse):
    """An answer that lasts until the client disconnects or the server stops."""

    media_type = "text/event-stream"

    def __init__(
        self, streams: StreamLimit, keys: LimitKeys, content: AsyncIterator[bytes]
    ) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(content, headers=headers)
        self._streams = streams
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and release its place however that ends."""
        with self._streams.leaving(self._keys):
            await super().__call__(scope, receive, send)
