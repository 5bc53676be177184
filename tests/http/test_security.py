"""Checks that apply to every request."""

import asyncio
import json
import socket

import pytest
from fastapi import APIRouter
from starlette.datastructures import Headers
from tests.http.live_server import SOON, TOKEN, demo_app

from holdfast.http import Owner, ServedApp
from holdfast.http.proxies import TrustedProxies
from holdfast.http.security import BodyLimits, SecurityMiddleware, is_from_here
from holdfast.http.write_limit import WriteLimit
from holdfast.testing import VirtualClock


@pytest.mark.parametrize("path", ["/api/jobs", "/healthz", "/nothing", "/api/jobs/x"])
def test_every_answer_carries_the_headers(serving, path):
    headers = serving.client.get(path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


class ThingsApp(ServedApp):
    """An app with routes that do not say how long an answer may be kept."""

    def routes(self, state):
        router = APIRouter()

        @router.get("/api/things")
        @router.get("/v3/things")
        async def things(owner: Owner) -> str:
            return f"what only {owner} may see"

        return router


@pytest.mark.parametrize("path", ["/api/things", "/v3/things", "/healthz", "/v3/nothing"])
def test_no_cache_keeps_an_answer_that_does_not_allow_it(serve, path):
    serving = serve(served=ThingsApp(demo_app()))

    assert serving.client.get(path).headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "sent, allowed",
    [
        ({}, True),
        ({"origin": "http://here:8000"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"origin": "http://evil"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://here:9000"}, False),
        ({"origin": "http://[broken"}, False),
        ({"origin": "http://evil", "sec-fetch-site": "same-origin"}, False),
    ],
)
def test_writes_come_from_our_own_pages_or_from_no_page(sent, allowed):
    assert is_from_here(Headers({"host": "here:8000", **sent})) is allowed


def test_a_write_from_another_site_changes_nothing(serving):
    job_id = serving.enqueue()

    answer = serving.client.post(f"/api/jobs/{job_id}/cancel", headers={"origin": "http://evil"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert serving.client.get(f"/api/jobs/{job_id}").json()["job"]["status"] == "queued"


def test_too_many_writes_get_a_retry_after(serve):
    serving = serve(writes_at_once=3, writes_per_second=0.5)
    serving.owner()
    answers = [serving.client.post("/api/jobs/x/cancel") for _ in range(5)]

    assert [answer.status_code for answer in answers] == [403, 403, 403, 429, 429]
    assert answers[-1].json()["error"]["code"] == "RATE_LIMITED"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
    other = serving.browser()
    serving.owner(other)
    assert other.post("/api/jobs/x/cancel").status_code == 403
    assert serving.client.get("/api/jobs").status_code == 200


def test_new_sessions_for_each_write_share_what_their_address_is_allowed(serve):
    serving = serve(writes_at_once=2, writes_per_second=0.01, sessions_per_address=2)

    def write(client):
        serving.owner(client)
        return client.post("/api/jobs/x/cancel").status_code

    assert [write(serving.browser()) for _ in range(6)] == [403] * 4 + [429] * 2
    elsewhere = serving.browser(**{"x-forwarded-for": "192.0.2.7"})
    assert write(elsewhere) == 403
    created = serving.run(serving.engine.keys.create(owner="a", organisation="b", name="c"))
    with_key = serving.browser(**{"x-api-key": created.secret})
    assert with_key.post("/api/jobs/x/cancel").status_code == 403


def test_strangers_without_cookies_share_the_allowance_of_their_address(serve):
    serving = serve(writes_at_once=2, writes_per_second=0.01)
    answers = [serving.browser().post("/api/jobs/x/cancel") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [403, 403, 429]


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
