"""The limits of request bodies."""

import asyncio
import json
import socket

from tests.http.live_server import SOON, TOKEN

from holdfast.http.body_limits import BodyLimits
from holdfast.http.proxies import TrustedProxies
from holdfast.http.security import SecurityMiddleware
from holdfast.http.write_limit import WriteLimit
from holdfast.testing import VirtualClock


def test_a_large_body_is_refused_even_if_it_declares_another_length(serve):
    serving = serve(body_bytes=1000)
    admin = serving.admin()

    declared = admin.post("/api/dead-letters/retry", content=b"x" * 1001)
    assert (declared.status_code, declared.json()["error"]["code"]) == (413, "TOO_LARGE")
    chunked = admin.post("/api/dead-letters/retry", content=iter([b"x" * 600] * 4))
    assert (chunked.status_code, chunked.json()["error"]["code"]) == (413, "TOO_LARGE")


def half_a_body(serving, path="/api/dead-letters/retry"):
    """Open a connection, and send a body that does not end."""
    host, port = serving.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=SOON)
    head = f"POST {path} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {TOKEN}\r\n"
    connection.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
    return connection


def answer_on(connection):
    with connection:
        found = b""
        while piece := connection.recv(65536):
            found += piece
    head, _, body = found.decode().partition("\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


def test_a_body_that_does_not_arrive_times_out(serve):
    serving = serve(body_seconds=0.5)

    status, error = answer_on(half_a_body(serving))

    assert (status, error["code"]) == (408, "TIMEOUT")
    assert error["message"] == "The request took too long to arrive."


def test_a_body_is_not_waited_for_while_the_server_stops(serving):
    connection = half_a_body(serving)

    async def stop():
        serving.state.stopping.set()

    serving.run(stop())

    status, error = answer_on(connection)
    assert (status, error["message"]) == (
        503,
        "The server is stopping; please send it again in a moment.",
    )
    assert answer_on(half_a_body(serving))[0] == 503


def through_the_middleware(app, receive, send, *, stopping, clock=None):
    """Send `app` a request with a body."""
    clock = clock or VirtualClock()
    limits = BodyLimits(100, SOON, frozenset(), stopping, clock)
    headers = [(b"content-length", b"5")]
    scope = {"type": "http", "path": "/", "method": "GET", "headers": headers}
    middleware = SecurityMiddleware(app, WriteLimit(1, 1.0, 1, clock), limits, TrustedProxies())
    asyncio.run(middleware(scope, receive, send))


def test_a_body_that_has_come_may_be_answered_late():
    clock, seen = VirtualClock(), []
    messages = [{"type": "http.request", "body": b"12345"}, {"type": "http.disconnect"}]

    async def app(scope, receive, send):
        seen.append(await receive())
        clock.sleep(10 * SOON)
        seen.append(await receive())

    async def receive():
        return messages[len(seen)]

    async def send(message): ...

    through_the_middleware(app, receive, send, stopping=asyncio.Event(), clock=clock)

    assert seen == messages


def test_a_client_that_has_its_answer_is_only_disconnected():
    """An app may go on reading after its answer; this ends when the server stops."""
    stopping, seen = asyncio.Event(), []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 400, "headers": []})
        seen.extend([await receive(), await receive()])

    async def receive():
        await asyncio.sleep(SOON)

    async def send(message):
        stopping.set()

    through_the_middleware(app, receive, send, stopping=stopping)

    assert seen == [{"type": "http.disconnect"}] * 2


def test_messages_after_a_body_are_passed_on_even_while_the_server_stops():
    stopping, seen = asyncio.Event(), []
    messages = [{"type": "http.request", "body": b"12345"}, {"type": "http.disconnect"}]

    async def app(scope, receive, send):
        seen.append(await receive())
        stopping.set()
        await asyncio.sleep(0)
        seen.append(await receive())

    async def receive():
        return messages[len(seen)]

    through_the_middleware(app, receive, None, stopping=stopping)

    assert seen == messages
