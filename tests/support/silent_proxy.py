"""A TCP proxy whose connections can go silent, as after a cut network or a lost NAT entry."""

import asyncio
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class SilentProxy:
    """Passes on connections to the server of `url`; `self.url` is the same through the proxy."""

    def __init__(self, url):
        self._parts = urlsplit(url)
        self._legs = []
        self._tasks = set()
        self.url = None

    @asynccontextmanager
    async def serving(self):
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            account, at, _ = self._parts.netloc.rpartition("@")
            port = server.sockets[0].getsockname()[1]
            self.url = urlunsplit(self._parts._replace(netloc=f"{account}{at}127.0.0.1:{port}"))
            try:
                yield self
            finally:
                for leg in self._legs:
                    leg.end()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def go_silent(self):
        """End the server's side of all connections; the client hears nothing. New ones work."""
        for leg in self._legs:
            leg.silent = True
            leg.server.transport.abort()

    def cut(self):
        """Reset all connections; new ones work."""
        for leg in self._legs:
            leg.end()
        self._legs.clear()

    async def _serve(self, from_client, to_client):
        host, port = self._parts.hostname, self._parts.port
        from_server, to_server = await asyncio.open_connection(host, port)
        leg = _Leg(to_client, to_server)
        self._legs.append(leg)
        for reader, writer in ((from_client, to_server), (from_server, to_client)):
            task = asyncio.create_task(leg.pump(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


class _Leg:
    def __init__(self, client, server):
        self.client, self.server = client, server
        self.silent = False

    async def pump(self, reader, writer):
        with suppress(OSError):
            while data := await reader.read(65536):
                if not self.silent:
                    writer.write(data)
                    await writer.drain()
        if not self.silent:
            writer.close()

    def end(self):
        self.client.transport.abort()
        self.server.transport.abort()
