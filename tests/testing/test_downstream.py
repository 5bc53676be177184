"""The scripted server, called by real clients over loopback sockets."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from holdfast.clock import SYSTEM_CLOCK
from holdfast.testing import ScriptedDownstream, VirtualClock
from holdfast.testing.downstream import (
    Exchange,
    Request,
    close_early,
    garbage,
    hang,
    ok,
    reply,
    reset,
    slow,
    status,
    trickle,
)

# No TLS here, and loading the certificates takes longer than any of these tests.
PLAIN = {"trust_env": False, "verify": False}


@pytest.fixture
def server():
    with ScriptedDownstream() as server:
        yield server


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.url, timeout=30, **PLAIN) as client:
        yield client


def get(url: str) -> httpx.Response:
    """Make a request on a new connection."""
    return httpx.get(url, timeout=30, **PLAIN)


def raw(server: ScriptedDownstream, data: bytes) -> bytes:
    """Send raw bytes and return the whole answer."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(data)
        answer = b""
        while more := connection.recv(65536):
            answer += more
        return answer


class TestScript:
    def test_without_a_script_the_answer_is_an_empty_200(self, client):
        answer = client.get("/")
        assert (answer.status_code, answer.content) == (200, b"")

    def test_each_request_consumes_a_behaviour_and_the_last_repeats(self, server, client):
        server.script(status(429), status(503), ok(b"at last"))
        assert [client.get("/").status_code for _ in range(5)] == [429, 503, 200, 200, 200]

    def test_the_first_script_may_be_given_at_once(self):
        with ScriptedDownstream(status(503), ok()) as server:
            codes = [get(server.url).status_code for _ in range(2)]
        assert codes == [503, 200]

    def test_a_path_may_have_its_own_script(self, server, client):
        server.script(status(500))
        server.script(ok(b"healthy"), path="/health")
        assert client.get("/health?deep=1").content == b"healthy"
        assert client.get("/convert").status_code == 500

    def test_a_new_script_replaces_the_old_and_none_is_the_default(self, server, client):
        server.script(status(500))
        server.script(status(502))
        assert client.get("/").status_code == 502
        server.script()
        assert client.get("/").status_code == 200

    def test_a_path_may_have_an_empty_script(self, server, client):
        server.script(status(500))
        server.script(path="/x")
        assert (client.get("/x").status_code, client.get("/x").content) == (200, b"")
        assert client.get("/y").status_code == 500

    def test_many_clients_consume_a_script_once(self, server):
        server.script(*[status(503)] * 30, ok())
        with ThreadPoolExecutor(10) as clients:
            answers = clients.map(lambda _: get(server.url), range(40))
            codes = [answer.status_code for answer in answers]
        assert codes.count(503) == 30
        assert codes.count(200) == 10


class TestRequests:
    def test_a_request_is_recorded_as_it_came(self, server, client):
        client.post("/convert?mapping=text", content=b"%PDF-", headers={"Idempotency-Key": "k1"})
        (request,) = server.requests
        assert (request.method, request.path, request.query) == ("POST", "/convert", "mapping=text")
        assert request.headers["idempotency-key"] == "k1"
        assert request.body == b"%PDF-"
        assert 0 <= SYSTEM_CLOCK.monotonic() - request.at < 60

    def test_requests_are_stamped_by_the_clock_that_was_given(self):
        clock = VirtualClock(start=77.0)
        with ScriptedDownstream(clock=clock) as server:
            get(server.url)
        assert server.requests[0].at == 77.0

    def test_a_json_body_is_decoded_on_demand(self, server, client):
        client.post("/", json={"a": [1, 2]})
        assert server.requests[0].json() == {"a": [1, 2]}

    def test_a_body_in_chunks_is_put_together(self, server, client):
        client.post("/", content=iter([b"one ", b"two ", b"three"]))
        assert server.requests[0].body == b"one two three"

    def test_trailers_are_ignored(self, server):
        raw(
            server,
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            b"3;note=x\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
        )
        assert server.requests[0].body == b"abc"

    def test_repeated_headers_are_joined(self, server):
        raw(server, b"GET / HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\nConnection: close\r\n\r\n")
        assert server.requests[0].headers["x-a"] == "1, 2"

    def test_expect_100_continue_is_answered(self, server):
        head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        answer = raw(server, head + b"Connection: close\r\n\r\nhi")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")

    def test_requests_have_the_number_of_their_connection(self, server, client):
        client.get("/")
        client.get("/")
        get(server.url)
        assert [request.connection for request in server.requests] == [1, 1, 2]

    def test_waiting_ends_with_the_arrival_of_the_requests(self, server):
        with ThreadPoolExecutor(3) as clients:
            for _ in range(3):
                clients.submit(get, server.url)
            assert len(server.wait_for_requests(3)) == 3

    def test_a_wait_timeout_reports_how_many_requests_arrived(self, server, client):
        client.get("/")
        with pytest.raises(TimeoutError, match=r"1 of 2 requests arrived within 0\.01 s"):
            server.wait_for_requests(2, timeout=0.01)

    @pytest.mark.parametrize(
        "request_bytes",
        [
            b"nonsense\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        ],
        ids=["line", "header", "length", "too long"],
    )
    def test_an_invalid_request_is_answered_400_and_not_recorded(self, server, request_bytes):
        try:
            assert raw(server, request_bytes).startswith(b"HTTP/1.1 400 ")
        except ConnectionResetError:
            assert len(request_bytes) > 65536  # the rest had not arrived yet
        assert server.requests == ()

    def test_a_client_that_disconnects_midway_does_no_harm(self, server, client):
        address = urlsplit(server.url)
        connection = socket.create_connection((address.hostname, address.port))
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf")
        connection.close()
        assert client.get("/").status_code == 200
        assert [request.method for request in server.requests] == ["GET"]


class TestBehaviours:
    def test_ok_sends_a_body_or_json(self, server, client):
        server.script(ok(b"<xml/>", headers={"Content-Type": "application/xml"}), ok(json={"a": 1}))
        answer = client.get("/")
        assert (answer.content, answer.headers["content-type"]) == (b"<xml/>", "application/xml")
        answer = client.get("/")
        assert (answer.json(), answer.headers["content-type"]) == ({"a": 1}, "application/json")

    def test_a_status_outside_the_standard_is_sent_too(self, server, client):
        server.script(status(599, b"odd"))
        answer = client.get("/")
        assert (answer.status_code, answer.content) == (599, b"odd")

    def test_a_head_request_is_answered_without_a_body(self, server, client):
        server.script(ok(b"12345"))
        assert client.head("/").headers["content-length"] == "5"
        assert client.get("/").content == b"12345"

    @pytest.mark.parametrize(
        "retry_after, header",
        [(2, "2"), (1.5, "1.5"), (120_000, "120000"), (1_234_567, "1234567"), ("soon", "soon")],
    )
    def test_retry_after_in_seconds_or_verbatim(self, server, client, retry_after, header):
        server.script(status(429, retry_after=retry_after))
        assert client.get("/").headers["retry-after"] == header

    def test_retry_after_as_an_http_date(self, server, client):
        moment = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
        server.script(status(503, retry_after=moment))
        header = client.get("/").headers["retry-after"]
        assert header == "Tue, 06 May 2031 07:08:09 GMT"
        assert parsedate_to_datetime(header) == moment

    def test_hang_sends_nothing_until_released_and_later_requests_hang_again(self, server):
        server.script(hang(), hang(then=status(504)))
        with ThreadPoolExecutor(1) as clients:
            for code in (200, 504):
                answer = clients.submit(get, server.url)
                server.wait_for_requests(1 if code == 200 else 2)
                assert not answer.done()
                server.release()
                assert answer.result().status_code == code

    def test_a_hanging_request_is_broken_when_the_server_closes(self):
        server = ScriptedDownstream(hang())
        server.start()
        with ThreadPoolExecutor(1) as clients:
            answer = clients.submit(get, server.url)
            server.wait_for_requests(1)
            server.close()
            with pytest.raises(httpx.TransportError):
                answer.result()

    def test_a_hanging_server_lets_a_client_time_out(self, server, client):
        server.script(hang())
        with pytest.raises(httpx.ReadTimeout):
            client.get("/", timeout=0.05)

    def test_slow_waits_and_then_answers(self, server, client):
        server.script(slow(0.02, then=status(202)))
        before = SYSTEM_CLOCK.monotonic()
        assert client.get("/").status_code == 202
        assert SYSTEM_CLOCK.monotonic() - before >= 0.019

    def test_trickle_sends_the_whole_body(self, server, client):
        server.script(trickle(b"drop by drop", every=0.001, size=5))
        assert client.get("/").content == b"drop by drop"

    def test_trickle_answers_at_once_and_sends_the_body_later(self, server, client):
        server.script(trickle(b"drop by drop", every=60))
        with client.stream("GET", "/", timeout=30) as answer:
            assert (answer.status_code, answer.headers["content-length"]) == (200, "12")
            answer.request.extensions["timeout"]["read"] = 0.05
            with pytest.raises(httpx.ReadTimeout):
                answer.read()

    def test_reset_breaks_the_connection_with_an_rst(self, server):
        server.script(reset())
        with pytest.raises(ConnectionResetError):
            raw(server, b"GET / HTTP/1.1\r\n\r\n")

    def test_close_early_may_send_nothing(self, server):
        server.script(close_early())
        assert raw(server, b"GET / HTTP/1.1\r\n\r\n") == b""
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        connection.request("GET", "/")
        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()
        connection.close()

    def test_close_early_may_truncate_a_body(self, server, client):
        server.script(close_early(b"half of i"))
        with pytest.raises(httpx.RemoteProtocolError, match="9 bytes, expected 10"):
            client.get("/")

    def test_garbage_is_not_http(self, server, client):
        server.script(garbage())
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/")

    def test_reply_chooses_by_the_request(self, server, client):
        def gateway(request: Request):
            return ok(request.body.upper()) if request.query == "mapping=text" else status(406)

        server.script(reply(gateway), path="/convert")
        assert client.post("/convert?mapping=text", content=b"pdf").content == b"PDF"
        assert client.post("/convert?mapping=none", content=b"pdf").status_code == 406

    def test_a_test_may_define_a_behaviour(self, server, client):
        async def teapot(exchange: Exchange) -> None:
            await exchange.send(b"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n")

        server.script(teapot)
        assert client.get("/").reason_phrase == "I'm a teapot"

    def test_an_error_in_a_behaviour_is_shown(self, server, client):
        def choose(request: Request):
            raise LookupError(f"no answer for {request.path}")

        server.script(reply(choose))
        answer = client.get("/x")
        assert (answer.status_code, answer.text) == (500, "LookupError('no answer for /x')")

    def test_a_client_that_disconnects_before_the_answer_does_no_harm(self, server, client):
        sent = threading.Event()

        async def to_nobody(exchange: Exchange) -> None:
            await exchange.wait_for_release()
            try:
                while True:
                    await exchange.send(b"x" * 65536)
            finally:
                sent.set()

        server.script(to_nobody, ok())
        with pytest.raises(httpx.ReadTimeout):
            client.get("/", timeout=0.01)
        for _ in range(600):
            server.release()  # has no effect before the server waits for it
            if sent.wait(0.05):
                break
        assert sent.is_set()
        assert client.get("/").status_code == 200


class TestLifetime:
    def test_twenty_starts_and_stops_leave_nothing_behind(self):
        def open_files() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        threads, files = threading.active_count(), open_files()
        for _ in range(20):
            with ScriptedDownstream(ok(), hang()) as server:
                address = urlsplit(server.url)
                with httpx.Client(base_url=server.url, **PLAIN) as client:
                    assert client.get("/").status_code == 200
                    idle = socket.create_connection((address.hostname, address.port))
                    with pytest.raises(httpx.ReadTimeout):
                        client.get("/", timeout=0.005)
                idle.close()
        assert threading.active_count() == threads
        assert open_files() == files

    def test_a_closed_server_refuses_and_restarts_on_its_port(self):
        with ScriptedDownstream() as server:
            url = server.url
        with pytest.raises(httpx.ConnectError):
            get(url)
        with server:
            assert server.url == url
            assert get(url).status_code == 200
        assert len(server.requests) == 1

    def test_closing_twice_is_fine_and_starting_twice_is_not(self, server):
        with pytest.raises(RuntimeError, match="already running"):
            server.start()
        server.close()
        server.close()

    @pytest.mark.parametrize("idle", [False, True])
    def test_closing_under_a_live_connection_is_quiet(self, idle, caplog, capfd):
        server = ScriptedDownstream()
        server.start()
        address = urlsplit(server.url)
        kept = http.client.HTTPConnection(address.netloc, timeout=30)
        kept.connect()
        if not idle:
            kept.request("GET", "/")
            assert kept.getresponse().read() == b""
        server.close()
        with contextlib.suppress(ConnectionResetError):
            assert kept.sock.recv(1) == b""
        kept.close()
        assert caplog.text == ""
        assert capfd.readouterr() == ("", "")

    def test_a_connection_that_comes_as_the_server_closes_is_closed_quietly(self, caplog, capfd):
        for _ in range(10):
            server = ScriptedDownstream()
            server.start()
            address = urlsplit(server.url)
            late = [socket.create_connection((address.hostname, address.port)) for _ in range(5)]
            server.close()
            for connection in late:
                connection.close()
        assert caplog.text == ""
        assert capfd.readouterr() == ("", "")

    def test_releasing_before_the_start_or_after_the_end_does_nothing(self):
        server = ScriptedDownstream(hang())
        server.release()
        with server, ThreadPoolExecutor(1) as clients:
            answer = clients.submit(get, server.url)
            server.wait_for_requests(1)
            assert not answer.done()
            server.release()
            assert answer.result().status_code == 200
        server.release()

    def test_a_port_in_use_is_reported_to_the_caller(self, server):
        port = urlsplit(server.url).port
        with pytest.raises(OSError, match="in use"):
            ScriptedDownstream(port=port or 0).start()

    def test_it_serves_a_client_on_a_running_loop(self):
        async def main() -> list[int]:
            with ScriptedDownstream(status(503), ok()) as server:
                async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
                    return [(await client.get("/")).status_code for _ in range(2)]

        assert asyncio.run(main()) == [503, 200]

    def test_it_serves_a_client_in_virtual_time(self):
        clock = VirtualClock(io_grace=5)

        async def main() -> object:
            with ScriptedDownstream(status(503), ok(json=["fine"])) as server:
                async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
                    while (answer := await client.get("/")).status_code != 200:
                        await clock.sleep_async(3600)
                    return json.loads(answer.content)

        assert clock.run(main()) == ["fine"]
        assert clock.monotonic() == 3600.0
