"""A real HTTP/1.1 server on the loopback interface whose answers and failures are scripted.

    from holdfast.testing.downstream import ScriptedDownstream, hang, ok, status

    with ScriptedDownstream() as server:
        server.script(status(429, retry_after=2), status(503), ok(b"at last"))
        ...  # call server.url three times
        assert [request.path for request in server.requests] == ["/", "/", "/"]

Each request consumes one behaviour of the script, and the last one repeats; without a script the
answer is an empty 200. A behaviour is any coroutine function of an `Exchange`, so a test can define
its own; `reply` chooses one by the request.
"""

from __future__ import annotations

import asyncio
import json as json_module
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any, Self

from holdfast.clock import SYSTEM_CLOCK, Clock

__all__ = [
    "Behaviour", "Exchange", "Request", "ScriptedDownstream", "close_early", "garbage", "hang",
    "ok", "reply", "reset", "slow", "status", "trickle",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived."""

    method: str
    path: str
    """Without the query."""
    query: str
    headers: Mapping[str, str]
    """Names in lower case; the values of a repeated header joined by commas."""
    body: bytes
    at: float
    """When it had arrived completely, in monotonic seconds of the server's clock."""
    connection: int
    """The number of its connection, from 1; the same number means keep-alive."""

    def json(self) -> Any:
        """Return the body decoded as JSON."""
        return json_module.loads(self.body)


Behaviour = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """A request and its connection, passed to a behaviour."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter, held: asyncio.Event) -> None:
        """Join a request with its connection."""
        self.request = request
        self._writer = writer
        self._held = held

    async def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def send_head(self, code: int, headers: Mapping[str, str]) -> None:
        """Send the status line and the headers."""
        phrase = HTTPStatus(code).phrase if code in set(HTTPStatus) else "Scripted"
        lines = [f"HTTP/1.1 {code} {phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def answer(self, code: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer."""
        await self.send_head(code, {"Content-Length": str(len(body)), **headers})
        if self.request.method != "HEAD":
            await self.send(body)

    async def wait_for_release(self) -> None:
        """Wait until the test calls `release`; closing the server cancels the wait."""
        await self._held.wait()

    def close(self) -> None:
        """Close the connection after all data was sent."""
        self._writer.close()

    def reset(self) -> None:
        """Break the connection with a TCP RST."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


def ok(
    body: bytes = b"", *, json: Any = None, headers: Mapping[str, str] | None = None
) -> Behaviour:
    """Answer 200 with `body`, or with `json` encoded."""
    return status(200, body, json=json, headers=headers)


def status(
    code: int,
    body: bytes = b"",
    *,
    retry_after: float | datetime | str | None = None,
    json: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Behaviour:
    """Answer with a status code.

    `retry_after` is sent as `Retry-After`: a number as seconds, an aware `datetime` as an HTTP
    date, a string as it stands.
    """
    sent = dict(headers or {})
    if json is not None:
        body = json_module.dumps(json).encode()
        sent.setdefault("Content-Type", "application/json")
    if retry_after is not None:
        sent["Retry-After"] = _retry_after(retry_after)

    async def behaviour(exchange: Exchange) -> None:
        await exchange.answer(code, sent, body)

    return behaviour


def _retry_after(value: float | datetime | str) -> str:
    if isinstance(value, datetime):
        return format_datetime(value.astimezone(UTC), usegmt=True)
    return value if isinstance(value, str) else f"{value:.15g}"


def slow(seconds: float, then: Behaviour | None = None) -> Behaviour:
    """Let `seconds` of real time pass, then answer as `then` does: 200 by default."""

    async def behaviour(exchange: Exchange) -> None:
        await asyncio.sleep(seconds)
        await (then or ok())(exchange)

    return behaviour


def hang(then: Behaviour | None = None) -> Behaviour:
    """Send nothing until the server is closed or released, then answer as `then` does."""

    async def behaviour(exchange: Exchange) -> None:
        await exchange.wait_for_release()
        await (then or ok())(exchange)

    return behaviour


def trickle(body: bytes, every: float = 0.01, size: int = 1) -> Behaviour:
    """Answer 200 at once, then send `size` bytes of `body` every `every` real seconds."""

    async def behaviour(exchange: Exchange) -> None:
        await exchange.send_head(200, {"Content-Length": str(len(body))})
        for start in range(0, len(body), size):
            await asyncio.sleep(every)
            await exchange.send(body[start : start + size])

    return behaviour


def reset() -> Behaviour:
    """Break the connection with a TCP RST in place of an answer."""

    async def behaviour(exchange: Exchange) -> None:
        exchange.reset()

    return behaviour


def close_early(body: bytes | None = None) -> Behaviour:
    """Close the connection without a byte, or after `body` with a longer `Content-Length`."""

    async def behaviour(exchange: Exchange) -> None:
        if body is not None:
            await exchange.send_head(200, {"Content-Length": str(len(body) + 1)})
            await exchange.send(body)
        exchange.close()

    return behaviour


def garbage(data: bytes = b"\x16\x03\x01 this is not HTTP\r\n\r\n") -> Behaviour:
    """Send bytes that are not HTTP, then close the connection."""

    async def behaviour(exchange: Exchange) -> None:
        await exchange.send(data)
        exchange.close()

    return behaviour


def reply(choose: Callable[[Request], Behaviour]) -> Behaviour:
    """Answer with the behaviour that `choose` returns for the request."""

    async def behaviour(exchange: Exchange) -> None:
        await choose(exchange.request)(exchange)

    return behaviour


class ScriptedDownstream:
    """A scripted server in its own thread: a context manager, or `start` and `close`.

    Started again after `close` it has the same port, so a test can simulate an outage.
    """

    def __init__(self, *behaviours: Behaviour, port: int = 0, clock: Clock = SYSTEM_CLOCK) -> None:
        """Take a first script, a port (0 for a free one) and the clock that stamps requests."""
        self._port = port
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._arrival = threading.Condition()
        self._requests: list[Request] = []
        self._scripts: dict[str | None, list[Behaviour]] = {}
        self._connections = 0
        self._conversations: set[asyncio.Task[Any]] = set()
        self.script(*behaviours)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL without a trailing slash; known once started."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests so far, in the order of arrival."""
        with self._arrival:
            return tuple(self._requests)

    def script(self, *behaviours: Behaviour, path: str | None = None) -> None:
        """Replace the script of `path`, or the one for all paths without their own script.

        Each request consumes a behaviour, the last one repeats; an empty script answers 200.
        """
        with self._arrival:
            self._scripts[path] = list(behaviours)

    def wait_for_requests(self, count: int, timeout: float = 5.0) -> tuple[Request, ...]:
        """Block until `count` requests have arrived in all, at most `timeout` real seconds."""
        with self._arrival:
            if not self._arrival.wait_for(lambda: len(self._requests) >= count, timeout):
                came = len(self._requests)
                raise TimeoutError(f"{came} of {count} requests arrived within {timeout:g} s")
            return tuple(self._requests)

    def release(self) -> None:
        """Answer every request that hangs now; later ones hang again."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._release)

    def start(self) -> None:
        """Listen and return; requests are answered from now on."""
        if self._thread is not None:
            raise RuntimeError("the scripted downstream is already running")
        listener = socket.create_server(("127.0.0.1", self._port), backlog=1024)
        self._port = listener.getsockname()[1]
        started: Future[None] = Future()
        main = self._serve(listener, started)
        self._thread = threading.Thread(target=asyncio.run, args=(main,), daemon=True)
        self._thread.start()
        started.result(timeout=10)

    def close(self) -> None:
        """Break every connection, stop listening and wait until the thread has ended."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            thread.join()

    async def _serve(self, listener: socket.socket, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._held = asyncio.Event()
        listener.setblocking(False)
        # Not asyncio.start_server: it leaks a connection that is accepted while it closes.
        self._loop.add_reader(listener, self._accept, listener)
        started.set_result(None)
        await self._stopping.wait()
        self._loop.remove_reader(listener)
        listener.close()
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # the client disconnected already
        self._connections += 1
        conversation = asyncio.create_task(self._converse(connection, self._connections))
        self._conversations.add(conversation)
        conversation.add_done_callback(self._conversations.discard)
        conversation.add_done_callback(lambda _: connection.close())  # it may not have started

    def _release(self) -> None:
        self._held.set()
        self._held = asyncio.Event()

    async def _converse(self, connection: socket.socket, number: int) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            while not writer.is_closing():
                await self._exchange(reader, writer, number)
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client disconnected
        finally:
            writer.transport.abort()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        try:
            request = await self._read(reader, writer, connection)
        except (ValueError, asyncio.LimitOverrunError):
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        exchange = Exchange(request, writer, self._held)
        try:
            await self._record(request)(exchange)
        except ConnectionError:
            raise
        except Exception as error:  # a bug in the test's behaviour: show it to the test
            await exchange.answer(500, {"Connection": "close"}, repr(error).encode())
            exchange.close()
        if request.headers.get("connection", "").lower() == "close":
            exchange.close()

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> Request:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")[:-2]
        method, target, _ = first.split(" ")
        headers: dict[str, str] = {}
        for line in lines:
            name, value = (part.strip() for part in line.split(":", 1))
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await _read_chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        path, _, query = target.partition("?")
        return Request(method, path, query, headers, body, self._clock.monotonic(), connection)

    def _record(self, request: Request) -> Behaviour:
        """Record the request, wake waiting threads, and return its behaviour."""
        with self._arrival:
            self._requests.append(request)
            self._arrival.notify_all()
            script = self._scripts.get(request.path, self._scripts[None])
            if not script:
                return ok()
            return script.pop(0) if len(script) > 1 else script[0]


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers are ignored
    return bytes(body)
