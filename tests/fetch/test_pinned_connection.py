"""Connections go to the checked address, while the request and the certificate keep the name."""

import asyncio
import socket

import httpcore
import pytest
from tests.support.fetching import (
    SMALL,
    Names,
    RecordingBackend,
    fetched,
    guarded,
    refused,
    site_url,
)
from tests.support.tls import certified

from holdfast.fetch import FetchCode, FetchLimits
from holdfast.fetch.pinned_connection import PinnedConnection
from holdfast.fetch.urls import parse_url
from holdfast.testing.downstream import ScriptedDownstream, ok


class TlsServer:
    """Answers one request after another over TLS, and notes the names that clients ask for."""

    def __init__(self, context):
        self.names = []
        self.hosts = []
        self._context = context
        context.sni_callback = lambda _, name, __: self.names.append(name)

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        self.hosts += [line for line in head.split(b"\r\n") if line.lower().startswith(b"host:")]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")
        await writer.drain()
        writer.close()


def test_host_header_and_certificate_are_those_of_the_name(tmp_path):
    server_side, client_side = certified(tmp_path, "site.example")
    backend = RecordingBackend()

    async def scenario():
        async with TlsServer(server_side) as server:
            fetcher = guarded(backend, ssl_context=client_side)
            answer = await fetcher.get(f"https://site.example:{server.port}/")
            return answer, server

    answer, server = asyncio.run(scenario())

    assert answer.body == b"secret"
    assert backend.asked == ["127.0.0.1"]
    assert server.names == ["site.example"]
    assert server.hosts == [f"Host: site.example:{server.port}".encode()]


def test_a_certificate_of_another_name_is_refused_for_good(tmp_path):
    server_side, client_side = certified(tmp_path, "other.example")

    async def scenario():
        async with TlsServer(server_side) as server:
            fetcher = guarded(RecordingBackend(), ssl_context=client_side)
            url = f"https://site.example:{server.port}/"
            return await asyncio.to_thread(refused, fetcher, url, FetchCode.FETCH_FAILED)

    error = asyncio.run(scenario())

    assert error.permanent
    assert str(error) == "The site's certificate could not be verified."


def test_a_server_that_speaks_no_tls_is_a_failed_connection():
    async def answer(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scenario():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"https://site.example:{server.sockets[0].getsockname()[1]}/"
            fetcher = guarded(RecordingBackend())
            return await asyncio.to_thread(refused, fetcher, url, FetchCode.FETCH_FAILED)

    assert not asyncio.run(scenario()).permanent


def test_a_handshake_without_an_answer_ends_with_the_time_for_all():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://site.example:{silent.getsockname()[1]}/"
        limits = FetchLimits(max_seconds=0.2, connect_seconds=20)

        assert refused(guarded(RecordingBackend(), limits), url).code == FetchCode.FETCH_TIMEOUT


def test_the_next_address_is_tried_where_the_first_refuses():
    class FirstRefuses(RecordingBackend):
        async def connect_tcp(self, host, port, timeout=None, *others, **named):
            if host == "8.8.8.8":
                self.asked.append(host)
                raise httpcore.ConnectError
            return await super().connect_tcp(host, port, timeout, *others, **named)

    backend = FirstRefuses()
    with ScriptedDownstream() as server:
        server.script(ok(b"second"))
        fetcher = guarded(backend, resolver=Names(site_example=["8.8.8.8 127.0.0.1"]))

        assert fetched(fetcher, site_url(server.url)).body == b"second"
    assert backend.asked == ["8.8.8.8", "127.0.0.1"]


def test_addresses_share_the_time_for_connecting_and_only_a_few_are_tried():
    waits = []

    class AllSilent(httpcore.AsyncNetworkBackend):
        async def connect_tcp(self, host, port, timeout=None, *others, **named):
            waits.append(timeout)
            raise httpcore.ConnectTimeout

    answers = " ".join(f"8.8.8.{number}" for number in range(1, 30))
    fetcher = guarded(AllSilent(), resolver=Names(site_example=[answers]))

    refused(fetcher, "http://site.example/", FetchCode.FETCH_TIMEOUT)
    assert waits == [SMALL.connect_seconds / 4] * 4


def test_whatever_host_the_library_below_asks_for_the_checked_address_is_used():
    backend = RecordingBackend()
    url = parse_url("http://rebinding.example/")
    connection = PinnedConnection(
        url, [parse_url("http://127.0.0.1/").address], SMALL, backend=backend, ssl_context=None
    )

    async def scenario():
        network = connection._network
        with socket.create_server(("127.0.0.1", 0)) as server:
            await network.connect_tcp("10.0.0.1", server.getsockname()[1])
            await connection.aclose()

    asyncio.run(scenario())
    assert backend.asked == ["127.0.0.1"]


def test_a_refused_connection_is_a_transient_failure():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = refused(guarded(RecordingBackend()), f"http://site.example:{port}/")

    assert error.code == FetchCode.FETCH_FAILED
    assert not error.permanent


def test_a_server_that_accepts_no_connection_is_given_up_after_the_time_for_connecting():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = [socket.socket() for _ in range(8)]
        try:
            for each in waiting:  # fill the backlog: further packets are dropped
                each.setblocking(False)
                each.connect_ex(server.getsockname())
            limits = FetchLimits(max_seconds=60, connect_seconds=0.3)
            url = f"http://site.example:{server.getsockname()[1]}/"
            error = refused(guarded(RecordingBackend(), limits), url, FetchCode.FETCH_TIMEOUT)
        finally:
            for each in waiting:
                each.close()

    assert isinstance(error.__cause__, httpcore.ConnectTimeout)


@pytest.mark.parametrize("path", ["/", "/other"])
def test_every_request_has_a_connection_of_its_own(path):
    with ScriptedDownstream() as server:
        fetcher = guarded(RecordingBackend())
        for _ in range(3):
            fetched(fetcher, site_url(server.url, path))

        assert [request.connection for request in server.requests] == [1, 2, 3]
        assert {request.headers["connection"] for request in server.requests} == {"close"}
