"""Errors of sockets, TLS, HTTP clients and brokers, on loopback."""

import asyncio
import errno
import functools
import socket
import ssl
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import aio_pika.exceptions
import aiormq.exceptions
import httpx
import pytest
import requests
from tests.support.errors import PERMANENT, TRANSIENT, look, raised, told
from tests.support.tls import certified

from holdfast.resilience.categorize import categorize


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one connection by `answer` on a free port, and give the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def reset(connection: socket.socket) -> None:
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(connection: socket.socket) -> None:
    connection.recv(65536)


def hang(connection: socket.socket) -> None:
    connection.settimeout(10)
    while connection.recv(65536):
        pass


def test_a_refused_connection_has_sent_nothing(closed_port: int):
    error = raised(lambda: socket.create_connection(("127.0.0.1", closed_port)))
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert (look(error).ambiguous, look(error).counts) == (False, True)


def test_a_reset_connection_is_ambiguous():
    with listening(reset) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"xy")
        error = raised(lambda: client.recv(1))
    assert isinstance(error, ConnectionResetError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous


def test_a_socket_without_an_answer_is_a_timeout():
    with listening(hang) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(0.01)
        error = raised(lambda: client.recv(1))
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous


@pytest.mark.parametrize("number", [socket.EAI_AGAIN, socket.EAI_NONAME, socket.EAI_FAIL])
def test_a_host_that_is_not_found_is_tried_again(number):
    error = socket.gaierror(number, "unknown")
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


def test_a_wrong_question_to_the_resolver_is_permanent():
    error = raised(lambda: socket.getaddrinfo("127.0.0.1", "no-such-service"))
    assert isinstance(error, socket.gaierror)
    assert told(error) == (PERMANENT, "VALIDATION_ERROR")


def test_the_old_resolvers_numbers_are_not_read_as_the_systems():
    assert told(socket.herror(errno.EPERM, "host not found")) == (TRANSIENT, "GW_UNAVAILABLE")


def test_the_numbers_of_tls_are_not_read_as_the_systems():
    for number in (errno.EPERM, errno.EIO, errno.ENOMEM):
        assert told(ssl.SSLError(number, "x")) == (TRANSIENT, "GW_UNAVAILABLE")


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    server, _ = certified(tmp_path_factory.mktemp("tls"), "localhost")
    return server


def shake_hands(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        with suppress(OSError):
            context.wrap_socket(connection, server_side=True).close()

    return answer


def by_socket(port: int) -> None:
    context = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", port)) as plain:
        context.wrap_socket(plain, server_hostname="localhost").close()


CLIENTS: dict[str, Callable[[int], object]] = {
    "socket": by_socket,
    "httpx": lambda port: httpx.get(f"https://localhost:{port}/", trust_env=False),
    "requests": lambda port: requests.get(f"https://localhost:{port}/", timeout=5),
    "urllib": lambda port: urllib.request.urlopen(f"https://localhost:{port}/", timeout=5),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_an_untrusted_certificate_is_permanent_in_every_client(client, self_signed):
    with listening(shake_hands(self_signed)) as port:
        error = raised(functools.partial(CLIENTS[client], port))
    assert told(error) == (PERMANENT, "GW_UNAVAILABLE")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_bad_handshake_is_transient_in_every_client(client):
    def babble(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")

    with listening(babble) as port:
        error = raised(functools.partial(CLIENTS[client], port))
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")


# --- HTTP clients --------------------------------------------------------------------------------


def get(port: int, **options: Any) -> httpx.Response:
    with httpx.Client(trust_env=False, **options) as client:
        return client.get(f"http://127.0.0.1:{port}/")


def test_httpx_refused(closed_port: int):
    error = raised(lambda: get(closed_port))
    assert isinstance(error, httpx.ConnectError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


def test_httpx_refused_in_a_task(closed_port: int):
    async def fetch() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(f"http://127.0.0.1:{closed_port}/")

    error = raised(lambda: asyncio.run(fetch()))
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


def test_httpx_missing_socket_file_is_a_downstream_that_is_not_up():
    error = httpx.ConnectError("[Errno 2] No such file or directory")
    error.__cause__ = FileNotFoundError(errno.ENOENT, "No such file or directory")
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")


def test_httpx_read_timeout():
    with listening(hang) as port:
        error = raised(lambda: get(port, timeout=0.05))
    assert isinstance(error, httpx.ReadTimeout)
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous


@pytest.mark.parametrize("kind", [httpx.ConnectTimeout, httpx.PoolTimeout])
def test_httpx_timeouts_before_anything_was_sent(kind):
    assert told(kind("slow")) == (TRANSIENT, "GW_TIMEOUT")
    assert look(kind("slow")).ambiguous is False


def test_httpx_hung_up():
    with listening(hang_up) as port:
        error = raised(lambda: get(port))
    assert isinstance(error, httpx.RemoteProtocolError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous


def test_httpx_bad_address():
    assert categorize(raised(lambda: httpx.get("ftp://127.0.0.1/", trust_env=False))) is PERMANENT
    assert (
        categorize(raised(lambda: httpx.get("http://127.0.0.1:no/", trust_env=False))) is PERMANENT
    )


def test_requests_refused(closed_port: int):
    error = raised(lambda: requests.get(f"http://127.0.0.1:{closed_port}/", timeout=5))
    assert isinstance(error, requests.ConnectionError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


def test_requests_read_timeout():
    with listening(hang) as port:
        error = raised(lambda: requests.get(f"http://127.0.0.1:{port}/", timeout=0.05))
    assert isinstance(error, requests.ReadTimeout)
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous


@pytest.mark.parametrize("answer", [hang_up, reset])
def test_requests_connection_that_broke_after_sending(answer):
    with listening(answer) as port:
        error = raised(lambda: requests.get(f"http://127.0.0.1:{port}/", timeout=5))
    assert isinstance(error, requests.ConnectionError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous


def test_requests_timeouts_by_class():
    assert look(requests.ConnectTimeout()).ambiguous is False
    assert told(requests.Timeout()) == (TRANSIENT, "GW_TIMEOUT")


def test_requests_bad_address():
    assert categorize(raised(lambda: requests.get("nonsense", timeout=1))) is PERMANENT


def test_urllib_refused_and_hung_up(closed_port: int):
    refused = raised(lambda: urllib.request.urlopen(f"http://127.0.0.1:{closed_port}/", timeout=5))
    assert isinstance(refused, urllib.error.URLError)
    assert told(refused) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(refused).ambiguous is False
    with listening(hang_up) as port:
        broken = raised(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5))
    assert told(broken) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(broken).ambiguous


# --- messaging -----------------------------------------------------------------------------------


def test_rabbitmq_refused(closed_port: int):
    async def connect() -> None:
        await aio_pika.connect(f"amqp://127.0.0.1:{closed_port}/")

    error = raised(lambda: asyncio.run(connect()))
    assert isinstance(error, aio_pika.exceptions.AMQPConnectionError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False


@pytest.mark.parametrize(
    ("kind", "category", "code"),
    [
        (aiormq.exceptions.ConnectionClosed, TRANSIENT, "GW_UNAVAILABLE"),
        (aiormq.exceptions.ChannelClosed, TRANSIENT, "GW_UNAVAILABLE"),
        (aiormq.exceptions.ChannelInvalidStateError, TRANSIENT, "GW_UNAVAILABLE"),
        (aiormq.exceptions.ChannelLockedResource, TRANSIENT, "GW_UNAVAILABLE"),
        (aiormq.exceptions.AuthenticationError, PERMANENT, "GW_4XX"),
        (aiormq.exceptions.ProbableAuthenticationError, PERMANENT, "GW_4XX"),
        (aiormq.exceptions.ChannelAccessRefused, PERMANENT, "GW_4XX"),
        (aiormq.exceptions.ChannelNotFoundEntity, PERMANENT, "GW_4XX"),
        (aiormq.exceptions.ChannelPreconditionFailed, PERMANENT, "GW_4XX"),
        (aio_pika.exceptions.ChannelClosed, TRANSIENT, "GW_UNAVAILABLE"),
    ],
)
def test_rabbitmq_errors(kind, category, code):
    assert told(kind("connection", "404")) == (category, code)


def test_a_message_that_the_broker_refused_was_not_taken():
    error = aiormq.exceptions.DeliveryError(None, aiormq.spec.Basic.Nack())
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous is False
