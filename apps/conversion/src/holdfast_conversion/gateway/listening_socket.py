"""The listening socket, which chaos can close for a while."""

import asyncio
import contextlib
import errno
import socket

import uvicorn

from holdfast import Clock


class ListeningSocket:
    """The gateway's listening socket: there, or gone for some seconds.

    Args:
        host: the address to listen on.
        port: 0 takes a free one.
        any_port: take a free port where `port` is taken.
        clock: measures how long it is gone.

    Raises:
        OSError: the port is taken, or the address is not this machine's.
    """

    def __init__(self, host: str, port: int, clock: Clock, *, any_port: bool = False) -> None:
        self._clock = clock
        self._host = host
        self._server: uvicorn.Server | None = None
        self._absence: asyncio.Task[None] | None = None
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self.socket = self._bound(port)
        except OSError as error:
            if not any_port or error.errno != errno.EADDRINUSE:
                raise
            self.socket = self._bound(0)
        self.port: int = self.socket.getsockname()[1]

    @property
    def address(self) -> str:
        """The address to call, such as `http://127.0.0.1:8100`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def serve_with(self, server: uvicorn.Server) -> None:
        """Name the server whose connections come through this socket."""
        self._server = server

    def vanish(self, seconds: float) -> None:
        """Refuse connections and break those that stand, for `seconds` from a moment after now."""
        if self._absence is None or self._absence.done():
            self._absence = asyncio.create_task(self._be_gone(seconds))

    async def _be_gone(self, seconds: float) -> None:
        server = self._server
        assert server is not None
        await self._clock.sleep_async(0.05)  # the answer to the command goes out first
        for listening in server.servers:
            listening.close()
        server.servers.clear()
        self.socket.close()
        for connection in list(server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        await self._clock.sleep_async(seconds)
        await self._return(server)

    async def _return(self, server: uvicorn.Server) -> None:
        config = server.config
        loop = asyncio.get_running_loop()
        while not server.should_exit:
            # Another process may have taken the port: try until it is free.
            with contextlib.suppress(OSError):
                self.socket = self._bound(self.port)
                listening = await loop.create_server(
                    lambda: config.http_protocol_class(  # type: ignore[call-arg]
                        config=config,
                        server_state=server.server_state,
                        app_state=server.lifespan.state,
                    ),
                    sock=self.socket,
                    backlog=config.backlog,
                )
                server.servers.append(listening)
                return
            await self._clock.sleep_async(0.5)

    def _bound(self, port: int) -> socket.socket:
        # asyncio turns off the delay of small packets only where the protocol is named.
        bound = socket.socket(self._family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self._host, port))
            # Only a listening socket keeps the port: with SO_REUSEADDR two sockets can be bound to
            # it until one listens.
            bound.listen()
        except OSError:
            bound.close()
            raise
        return bound


class AnnouncingServer(uvicorn.Server):
    """A server that prints its address as soon as it listens."""

    def __init__(self, config: uvicorn.Config, listener: ListeningSocket, note: str) -> None:
        super().__init__(config)
        self._line = f"gateway: listening on {listener.address}{note}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the address."""
        await super().startup(sockets)
        if self.started and not self.should_exit:
            print(self._line, flush=True)  # noqa: T201 - a command prints
