"""Requests that are made to harm a server, by name, and a client that sends them as they are."""

import contextlib
import random
import socket
from collections.abc import Iterator
from typing import NamedTuple

_SECONDS = 60.0
"""How long a client waits for its answer."""
_BOUNDARY = "b0undary"
_FORM = f"multipart/form-data; boundary={_BOUNDARY}"
_PATHS = (
    "/api/jobs/%00", "/api/jobs/" + "a" * 5000, "/api/jobs/../../etc/passwd", "/%ff%fe",
    "/api/jobs?cursor=" + "A" * 3000, "/api/jobs?limit=-1", "/api/jobs?limit=" + "9" * 300,
    "/api/jobs?" + "a=b&" * 5000, "/static/../../../etc/passwd", "/api/events?after=" + "9" * 29,
    "/api/jobs/%ed%a0%80/download", "/admin/enter?token=" + "%00" * 99, "//",
    "/api/jobs/x/download",
)  # fmt: skip


class HostileRequest(NamedTuple):
    """What a client sends; `pieces` go out one after the other.

    With `cut` the client closes the connection and does not wait for an answer. With `held` it
    sends no more, and keeps the connection until the end of the campaign.
    """

    name: str
    pieces: tuple[bytes, ...]
    cut: bool = False
    held: bool = False


def hostile_requests(rng: random.Random, *, noise: int) -> Iterator[HostileRequest]:
    """Yield the requests, the most telling ones first; `noise` of them are made at random."""
    yield from _forms()
    yield from _bodies()
    yield from _heads()
    for path in _PATHS:
        yield HostileRequest(f"GET {path[:30]}", (_request("GET", path),))
    for method in ("POST", "PUT", "DELETE", "PATCH", "BREW"):
        for path in ("/api/jobs", "/api/upload", "/api/jobs/x/retry", "/", "/readyz"):
            yield HostileRequest(f"{method} {path}", (_request(method, path, body=b"{" * 99),))
    for number in range(noise):
        yield HostileRequest(f"noise {number}", (_noise(rng),))


def _forms() -> Iterator[HostileRequest]:
    whole = _upload(_part("mapping", b"text") + _part("file", b"%PDF-1.4 x", "a.pdf"))
    yield HostileRequest("thousands of parts", (_upload(_part("a", b"b") * 5000),))
    files = _part("file", b"%PDF-1.4 x", "a.pdf") * 3000
    yield HostileRequest("thousands of files", (_upload(files),))
    yield HostileRequest("part with thousands of headers", (_upload(_part("a", b"", None, 5000)),))
    yield HostileRequest("field of a megabyte", (_upload(_part("mapping", b"x" * 1_000_000)),))
    yield HostileRequest("name of a megabyte", (_upload(_part("file", b"%PDF", "n" * 1_000_000)),))
    yield HostileRequest("name with a path", (_upload(_part("file", b"%PDF", "../../x\0.pdf")),))
    yield HostileRequest("no end of the form", (_upload(_part("mapping", b"text"), end=b""),))
    yield HostileRequest("nothing but boundaries", (_upload(f"--{_BOUNDARY}\r\n".encode() * 9999),))
    yield HostileRequest("boundary of nothing", (whole.replace(_BOUNDARY.encode(), b"", 1),))
    yield HostileRequest("form cut in half", (whole[: len(whole) // 2],), cut=True)
    yield HostileRequest("form that stops", (whole[: len(whole) // 2],), held=True)
    yield HostileRequest("form in single bytes", tuple(bytes([each]) for each in whole))
    yield HostileRequest("larger than allowed", (_request("POST", "/api/upload", "9" * 15),))


def _bodies() -> Iterator[HostileRequest]:
    chunked = {"Transfer-Encoding": "chunked", "Content-Type": _FORM}
    head = _request("POST", "/api/upload", headers=chunked)
    yield HostileRequest("huge chunk", (head, b"ffffffffffffffff\r\nabc"), cut=True)
    yield HostileRequest("not a chunk", (head, b"hello\r\n"))
    yield HostileRequest("endless chunk size", (head, b"0" * 200_000))
    yield HostileRequest("chunks that stop", (head, b"5\r\nab"), held=True)
    sizes = "5\r\nTransfer-Encoding: chunked"
    yield HostileRequest("size and chunks", (_request("POST", "/api/upload", sizes), b"0\r\n\r\n"))
    yield HostileRequest("two sizes", (_request("POST", "/api/upload", "5\r\nContent-Length: 6"),))
    yield HostileRequest("negative size", (_request("POST", "/api/upload", "-1"),))
    yield HostileRequest("packed body", (_request("POST", "/api/upload", body=b"x", headers={
        "Content-Encoding": "gzip, gzip", "Content-Type": _FORM}),))  # fmt: skip
    for depth in (100, 100_000):
        deep = b"[" * depth
        json = {"Content-Type": "application/json"}
        request = _request("POST", "/api/jobs/x/cancel", body=deep, headers=json)
        yield HostileRequest(f"JSON {depth} deep", (request,))
    yield HostileRequest("body that never comes", (_request("POST", "/theme", "99"),), held=True)


def _heads() -> Iterator[HostileRequest]:
    yield HostileRequest("ten thousand headers", (_request("GET", "/", headers={
        f"X-{number}": "a" for number in range(10_000)}),))  # fmt: skip
    yield HostileRequest(
        "header of a megabyte", (_request("GET", "/", headers={"X": "a" * 10**6}),)
    )
    cookies = "; ".join(f"holdfast_session_{number:08x}={'a' * 40}" for number in range(800))
    yield HostileRequest("thousands of cookies", (_request("GET", "/", headers={
        "Cookie": cookies}),))  # fmt: skip
    yield HostileRequest("no host", (b"GET / HTTP/1.1\r\n\r\n",))
    yield HostileRequest("no version", (b"GET /\r\n\r\n",))
    yield HostileRequest("another version", (b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",))
    yield HostileRequest("not HTTP", (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" * 20,))
    yield HostileRequest("head that stops", (b"GET / HTTP/1.1\r\nHost:",), held=True)
    yield HostileRequest("head in single bytes", tuple(
        bytes([each]) for each in _request("GET", "/healthz")))  # fmt: skip
    many = _request("GET", "/healthz").replace(b"Connection: close\r\n", b"") * 500
    yield HostileRequest("five hundred requests at once", (many,), cut=True)
    for name in ("Authorization", "X-API-Key", "Last-Event-ID", "Range", "If-None-Match", "Expect"):
        for value in ("Bearer " + "x" * 9000, "hf_" + "\xe9" * 99, "bytes=0-,-1,5-2"):
            request = _request("GET", "/api/jobs", headers={name: value})
            yield HostileRequest(f"{name}: {value[:12]}", (request,))


def _request(
    method: str,
    path: str,
    size: str | None = None,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body or size is not None:
        lines.append(f"Content-Length: {len(body) if size is None else size}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _part(name: str, value: bytes, filename: str | None = None, headers: int = 0) -> bytes:
    file = "" if filename is None else f'; filename="{filename}"'
    more = "".join(f"X-{number}: a\r\n" for number in range(headers))
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n{more}\r\n'
    return head.encode() + value + b"\r\n"


def _upload(parts: bytes, end: bytes = f"--{_BOUNDARY}--\r\n".encode()) -> bytes:
    return _request("POST", "/api/upload", body=parts + end, headers={"Content-Type": _FORM})


def _noise(rng: random.Random) -> bytes:
    data = bytearray(_upload(_part("mapping", b"text") + _part("file", b"%PDF-1.4 x", "a.pdf")))
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


class RawClient:
    """One connection to `port` of this machine that sends bytes as they are."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, request: HostileRequest) -> None:
        """Send what the server takes of `request`; it may answer and close before the end."""
        with contextlib.suppress(ConnectionError):
            for piece in request.pieces:
                self._socket.sendall(piece)

    def status(self) -> int | None:
        """Return the status of the answer; None for a connection that was closed without one.

        Raises:
            TimeoutError: there was neither.
        """
        head = b""
        with contextlib.suppress(ConnectionError):
            while len(head) < 12:
                piece = self._socket.recv(4096)
                if not piece:
                    break
                head += piece
        words = head.split(b" ", 2)
        return int(words[1][:3]) if len(words) > 1 and words[1][:3].isdigit() else None
