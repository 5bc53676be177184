import asyncio
import errno
import functools
import gc
import socket
import ssl
import struct
import subprocess
import threading
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aio_pika.exceptions
import aiormq.exceptions
import httpx
import msgspec
import pydantic
import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from holdfast.errors import (
    Category,
    RetryRule,
)
from holdfast.resilience.categorize import Diagnosis, categorize, diagnose
from holdfast.resilience.recognise import by_type, by_words

NOW = datetime(2025, 10, 17, 12, 0, tzinfo=UTC).timestamp()
TRANSIENT, PERMANENT = Category.TRANSIENT, Category.PERMANENT


def look(error: BaseException) -> Diagnosis:
    return diagnose(error, wall_now=NOW)


def told(error: BaseException) -> tuple[Category, str]:
    found = look(error)
    assert categorize(error) is found.category
    return found.category, found.code.value


def raised(action: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller asserts what it is
        action()
    return caught.value


def wrapped(error: BaseException, message: str = "the step failed") -> RuntimeError:
    wrapper = RuntimeError(message)
    wrapper.__cause__ = error
    return wrapper


def foreign(package: str, *names: str, base: type[Exception] = Exception) -> type[Exception]:
    """Make a class as a library that is not installed here would have made it."""
    made = base
    for name in names:
        made = type(name, (made,), {"__module__": f"{package}.exceptions"})
    return made


# --- Python's own errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        *(TypeError, AttributeError, NameError, UnboundLocalError, ImportError, SyntaxError),
        *(ModuleNotFoundError, NotImplementedError, RecursionError, AssertionError),
        *(KeyError, IndexError, LookupError, ArithmeticError, ZeroDivisionError, OverflowError),
    ],
)
def test_a_bug_of_the_caller_is_permanent(kind):
    assert told(kind("timeout")) == (PERMANENT, "UNKNOWN")
    assert look(kind("timeout")).counts is False


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, Exception])
def test_a_general_error_is_transient_by_default(kind):
    assert look(kind("boom")).known is False
    assert categorize(kind("boom")) is TRANSIENT


def test_lack_of_memory_is_permanent():
    assert told(MemoryError()) == (PERMANENT, "MEMORY_ERROR")


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1), GeneratorExit()]
)
def test_an_interruption_is_never_retried(error):
    assert told(error) == (PERMANENT, "CANCELLED")
    assert look(error).counts is False


def test_a_timeout_made_of_a_cancellation_is_a_timeout():
    async def slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    error = raised(functools.partial(asyncio.run, slow()))
    assert isinstance(error.__cause__, asyncio.CancelledError)
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous


def test_a_cancellation_as_a_cause_says_nothing():
    assert look(wrapped(asyncio.CancelledError())).known is False


def test_a_child_that_took_too_long_is_a_timeout():
    error = raised(lambda: subprocess.run(["sleep", "5"], timeout=0.01, check=True))
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")


# --- validation ----------------------------------------------------------------------------------


class _Model(pydantic.BaseModel):
    age: int


class _Record(msgspec.Struct):
    age: int


@pytest.mark.parametrize(
    "error",
    [
        raised(lambda: _Model.model_validate({"age": "connection timeout"})),
        raised(lambda: msgspec.json.decode(b'{"age": "x"}', type=_Record)),
        foreign("jsonschema", "_Error", "ValidationError")("timeout"),
        foreign("myapp", "ValidationError", "AgeError", base=ValueError)("timeout"),
    ],
    ids=lambda error: type(error).__module__,
)
def test_data_that_fails_validation_is_permanent(error):
    assert told(error) == (PERMANENT, "VALIDATION_ERROR")


# --- files ---------------------------------------------------------------------------------------


def test_a_missing_file_and_a_directory_in_its_place_are_permanent(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    for error in (
        raised((tmp_path / "none").read_text),
        raised(tmp_path.read_text),
        raised((tmp_path / "file" / "below").read_text),
        raised((tmp_path / "file").mkdir),
    ):
        assert told(error) == (PERMANENT, "IO_ERROR")
        assert look(error).retry is RetryRule.NEVER


def test_a_full_device_is_permanent_though_other_storage_faults_pass():
    def fill() -> None:
        with open("/dev/full", "wb", buffering=0) as device:  # noqa: PTH123 - no path, a device
            device.write(b"x")

    error = raised(fill)
    assert (error.errno, told(error)) == (errno.ENOSPC, (PERMANENT, "IO_ERROR"))
    assert told(OSError(errno.EIO, "I/O error")) == (TRANSIENT, "IO_ERROR")
    assert look(OSError(errno.EIO, "I/O error")).retry is RetryRule.ONCE


# --- sockets and TLS, on loopback ----------------------------------------------------------------


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


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


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


def test_a_reset_connection_may_have_had_its_effect():
    with listening(reset) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"xy")
        error = raised(lambda: client.recv(1))
    assert isinstance(error, ConnectionResetError)
    assert told(error) == (TRANSIENT, "GW_UNAVAILABLE")
    assert look(error).ambiguous


def test_a_socket_that_waits_in_vain_is_a_timeout():
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
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    start = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3))
        .sign(key, hashes.SHA256())
    )
    both = tmp_path_factory.mktemp("tls") / "both.pem"
    both.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context


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
def test_an_untrusted_certificate_is_permanent_whoever_reports_it(client, self_signed):
    with listening(shake_hands(self_signed)) as port:
        error = raised(functools.partial(CLIENTS[client], port))
    assert told(error) == (PERMANENT, "GW_UNAVAILABLE")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_bad_handshake_is_transient_whoever_reports_it(client):
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


# --- the memory of types -----------------------------------------------------------------------


def test_a_type_is_judged_once():
    kind = foreign("myapp", "Unheard")
    assert by_type(kind) is None
    kind.__module__ = "httpx"
    kind.__name__ = "ReadTimeout"
    assert by_type(kind) is None


def test_types_made_at_run_time_are_not_kept_for_ever():
    made = [type(f"Made{number}", (Exception,), {}) for number in range(3000)]
    for kind in made:
        look(kind("boom"))
    watched = weakref.ref(made[0])
    del made, kind
    gc.collect()
    assert watched() is None


def test_no_error_is_kept():
    error = foreign("myapp", "Unheard")("a message of its own")
    look(error)
    watched = weakref.ref(error)
    del error
    gc.collect()
    assert watched() is None


# --- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code", "ambiguous"),
    [
        ("http 502", "GW_5XX", True),
        ("http/1.1 429 too many requests", "RATE_LIMITED", False),
        ("status: 404", "GW_4XX", False),
        ("error code: 500", "GW_5XX", False),
        ("server answered 503 service unavailable", "GW_5XX", False),
        ("(504)", "GW_5XX", True),
        ("408: request took too long", "GW_TIMEOUT", True),
        ("connection refused by 10.0.0.1", "GW_UNAVAILABLE", False),
        ("connection reset by peer", "GW_UNAVAILABLE", True),
        ("the read timed out", "GW_TIMEOUT", True),
        ("the model is overloaded", "GW_5XX", False),
        ("request was throttled", "RATE_LIMITED", False),
        ("database is locked", "GW_5XX", False),
    ],
)
def test_words_tell_the_code_and_never_a_status(message, code, ambiguous):
    found = by_words(message)
    assert found is not None
    assert (found.code.value, found.ambiguous, found.status) == (code, ambiguous, None)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "404 rows were left over",
        "page 503 of 600",
        "5000",
        "got 4044 bytes",
        "in 429 ms",
        "1.503",
    ],
)
def test_a_number_that_is_no_status_says_nothing(message):
    assert by_words(message) is None
