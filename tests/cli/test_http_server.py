"""uvicorn with our settings."""

import asyncio
import contextlib
import socket

import httpx
import pytest

from holdfast.cli import http_server
from holdfast.cli.http_server import uvicorn_server

SOON = 60.0
HEAD = b"GET / HTTP/1.1\r\nhost: here\r\n"


def app_that_waits_for(event):
    """Return an app that answers once `event` is set."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await event.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


async def talk(port, *pieces, then=b""):
    """Send `pieces`, then `then` repeatedly; return all that is received until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def go_on():
        while then:
            writer.write(then)
            await asyncio.sleep(0.1)

    for piece in pieces:
        writer.write(piece)
    sending = asyncio.create_task(go_on())
    found = b""
    with contextlib.suppress(ConnectionError):
        found = await asyncio.wait_for(reader.read(), SOON)
    sending.cancel()
    writer.close()
    return found


def test_an_incomplete_request_head_times_out(monkeypatch):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 2.0)
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 2)

    async def run():
        cut = asyncio.Event()
        server = uvicorn_server(app_that_waits_for(cut), asyncio.Event())

        async def say_nothing():
            found = await talk(port)
            # Complete requests have waited longer than the timeout for a request head.
            cut.set()
            return found

        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            port = listener.getsockname()[1]
            answers = await asyncio.gather(
                say_nothing(),
                talk(port, b"GET / HT"),
                talk(port, HEAD, then=b"x-a: b\r\n"),
                talk(port, HEAD, b"connection: close\r\n\r\n"),
                talk(port, HEAD + b"\r\n" + HEAD),
            )
            server.should_exit = True
            await serving
            return answers

    silent, begun, dripping, whole, second = asyncio.run(run())
    assert (silent, begun, dripping) == (b"", b"", b"")
    assert whole.startswith(b"HTTP/1.1 200")
    assert second.count(b"HTTP/1.1 200") == 1


def test_the_next_incomplete_head_on_a_connection_times_out_too(monkeypatch):
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 2.0)

    async def run():
        at_once = asyncio.Event()
        at_once.set()
        server = uvicorn_server(app_that_waits_for(at_once), asyncio.Event())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(HEAD + b"\r\n")
            first = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), SOON)
            writer.write(HEAD)
            rest = await asyncio.wait_for(reader.read(), SOON)
            writer.close()
            server.should_exit = True
            await serving
            return first, rest

    first, rest = asyncio.run(run())
    assert first.startswith(b"HTTP/1.1 200")
    assert rest == b""


def test_an_idle_connection_is_kept_longer_than_clients_keep_theirs():
    server = uvicorn_server(app_that_waits_for(asyncio.Event()), asyncio.Event())

    assert server.config.timeout_keep_alive > 2 * httpx.Limits().keepalive_expiry


def test_a_cancelled_request_is_ignored_only_while_stopping():
    async def cut_off(scope, receive, send):
        raise asyncio.CancelledError

    async def run():
        stopping = asyncio.Event()
        app = uvicorn_server(cut_off, stopping).config.app
        with pytest.raises(asyncio.CancelledError):
            await app({"type": "http"}, None, None)
        stopping.set()
        await app({"type": "http"}, None, None)

    asyncio.run(run())
