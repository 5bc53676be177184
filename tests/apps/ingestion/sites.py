"""Web sites for tests: real sockets on the loopback interface, answers by path."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

PAGE = b"""<!doctype html><html><head><title>%s</title></head><body><nav><a href="/">Home</a></nav>
<article><h1>%s</h1><p>%s</p></article><footer>Imprint</footer></body></html>"""


def page(title: str, text: str) -> bytes:
    """Return an HTML page with navigation around `text`."""
    return PAGE % (title.encode(), title.encode(), text.encode())


class Site:
    """A site: `answers` by path are (status, headers, body); `asked` lists the paths."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.requests: list[str] = []
        self.default: tuple[int, dict[str, str], bytes] = (404, {}, b"")
        self.delay = 0.0
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def text(self, path: str, text: str, **headers: str) -> str:
        """Serve a plain text at `path`; return its address."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (200, {"content-type": "text/plain"} | named, text.encode())
        return self.url(path)

    def html(self, path: str, title: str, text: str) -> str:
        """Serve a page at `path`; return its address."""
        self.answers[path] = (200, {"content-type": "text/html"}, page(title, text))
        return self.url(path)

    def status(self, path: str, status: int) -> str:
        """Answer with a status at `path`; return its address."""
        self.answers[path] = (status, {}, b"")
        return self.url(path)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return the address of `path`."""
        return f"http://{host}:{self.port}{path}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection in a task."""
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split()[1]
            self.asked.append(path)
            self.requests.append(head)
            if self.delay:
                await asyncio.sleep(self.delay)
            status, headers, body = self.answers.get(path, self.default)
            etag = headers.get("etag")
            if etag is not None and f"If-None-Match: {etag}" in head:
                status, body = 304, b""
            lines = [f"HTTP/1.1 {status} X", *(f"{k}: {v}" for k, v in headers.items())]
            lines += [f"content-length: {len(body)}", "connection: close", "", ""]
            writer.write("\r\n".join(lines).encode("latin-1") + body)
            await writer.drain()


@contextlib.asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Run a site while the block runs."""
    made = Site()
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()


@contextlib.contextmanager
def swallowing_port() -> Iterator[int]:
    """A port whose connections are never answered: it listens, and its backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        yield address[1]
