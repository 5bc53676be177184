"""The size limit of request bodies, the time limit, and what ends them while the server stops.

Routes tagged `STREAMED`, such as the uploads of an app, count their bodies themselves.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How much of a body is taken in, for how long, and until when.

    Args:
        most_bytes: the largest body of a request that is not among `streamed`.
        seconds: the time in which such a body must have come.
        streamed: methods and paths of routes that read their bodies piece by piece and count for
            themselves.
        stopping: set when the server is about to stop: no more of any body is waited for.
        clock: where time comes from.
    """

    most_bytes: int
    seconds: float
    streamed: frozenset[tuple[str, str]]
    stopping: asyncio.Event
    clock: Clock

    def declared_too_large(self, scope: Scope) -> bool:
        """Say whether the request declares a body that is too large, so none of it is read."""
        declared = Headers(scope=scope).get("content-length", "")
        counted = not self._is_streamed(scope)
        return counted and declared.isdigit() and int(declared) > self.most_bytes

    def body(self, scope: Scope, receive: Receive) -> "LimitedBody | None":
        """Return what receives the body of a request within these limits; None if it has none."""
        headers = Headers(scope=scope)
        if "transfer-encoding" not in headers and headers.get("content-length", "0") == "0":
            return None
        if self._is_streamed(scope):
            return LimitedBody(receive, self.clock)
        return LimitedBody(receive, self.clock, self.most_bytes, self.seconds)

    def _is_streamed(self, scope: Scope) -> bool:
        return (scope["method"], scope["path"]) in self.streamed


class LimitedBody:
    """Receive a body: no more of it than allowed, in the time allowed, and not while stopping."""

    def __init__(
        self,
        receive: Receive,
        clock: Clock,
        most: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self._receive = receive
        self._clock = clock
        self._left = most
        self._until = None if seconds is None else clock.monotonic() + seconds
        self._waiting: asyncio.Timeout | None = None
        self._stops = False
        self._ended = False
        self.answered = False

    @contextmanager
    def ending(self, stopping: asyncio.Event) -> Iterator[None]:
        """While the block runs, wait for no more of the body once `stopping` is set."""
        watch = asyncio.ensure_future(stopping.wait())
        watch.add_done_callback(self._stop)
        try:
            yield
        finally:
            watch.cancel()

    async def __call__(self) -> Message:
        """Receive the next part.

        Raises:
            ApiError: it is refused, and no answer was begun.
        """
        if self._ended:
            # What comes now is only that the client has gone.
            return await self._receive()
        if self._stops:
            return self._refused(_stopping())
        try:
            async with asyncio.timeout(self._seconds_left()) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            return self._refused(_stopping() if self._stops else _too_slow())
        finally:
            self._waiting = None
        self._ended = not message.get("more_body", False)
        if self._left is not None:
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                return self._refused(too_large())
        return message

    def _seconds_left(self) -> float | None:
        return None if self._until is None else self._until - self._clock.monotonic()

    def _refused(self, refusal: ApiError) -> Message:
        if self.answered:
            return {"type": "http.disconnect"}
        raise refusal

    def _stop(self, watch: "asyncio.Future[Literal[True]]") -> None:
        if watch.cancelled():
            return
        self._stops = True
        if self._waiting is not None:
            self._waiting.reschedule(0.0)  # long ago, so at once


def too_large() -> ApiError:
    """Return the refusal of a body that is too large."""
    return ApiError(ErrorCode.TOO_LARGE, headers={"connection": "close"})


def _stopping() -> ApiError:
    return ApiError(
        ErrorCode.IO_ERROR,
        "The server is stopping; please send it again in a moment.",
        status=503,
        headers={"retry-after": "5", "connection": "close"},
    )


def _too_slow() -> ApiError:
    line = "The request took too long to arrive."
    return ApiError(ErrorCode.TIMEOUT, line, status=408, headers={"connection": "close"})
