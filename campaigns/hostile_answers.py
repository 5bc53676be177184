"""Answers of a gateway that are made to harm its client, by name."""

import asyncio
import gzip
from collections.abc import Iterator
from typing import NamedTuple

from tests.apps.conversion.pdf_writer import flate_bomb

from holdfast.testing.downstream import (
    Behaviour,
    Exchange,
    close_early,
    garbage,
    hang,
    reset,
    status,
)

_XML = {"Content-Type": "application/xml"}
_GOOD = b"<document/>"
_PAUSE = 0.01
"""Seconds between two pieces of an answer without an end."""
_PIECE = b"<p>" + b"words " * 2000 + b"</p>"
_BOMB = flate_bomb(2000)
"""Two gigabytes in two megabytes, by deflate."""
_LAUGHS = (
    b'<!DOCTYPE a [<!ENTITY a0 "ha">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n + 1, b"&a%d;" % n * 10) for n in range(12))
    + b"]><a>&a12;</a>"
)


class HostileAnswer(NamedTuple):
    """How the gateway answers; `harmless` answers may also end in a complete job."""

    name: str
    behaviour: Behaviour
    harmless: bool = False


def hostile_answers() -> Iterator[HostileAnswer]:
    """Yield the answers, the most telling ones first."""
    yield from _encodings(200)
    yield from _bodies()
    yield from _heads()
    for code in (400, 413, 429, 500, 503):
        yield from _encodings(code)
    for code in (100, 101, 103, 199, 201, 204, 206, 226, 304, 402, 418, 451, 511, 599, 600, 999):
        yield HostileAnswer(f"status {code}", status(code, _GOOD, headers=_XML))
    for kind in ("text/html", "application/json", "", "application/xml" * 999, "xml", "text/xmlx"):
        yield HostileAnswer(f"type {kind[:20]!r}", status(200, _GOOD, headers=_typed(kind)))
    for after in ("-1", "1e309", "9" * 400, "Tue, 99 Foo 2026", "nan", "\x7f"):
        yield HostileAnswer(f"retry after {after[:9]!r}", _retry_after(after))


def _encodings(code: int) -> Iterator[HostileAnswer]:
    once, twice = gzip.compress(bytes(2_000_000), 9), gzip.compress(_BOMB, 9)
    bombs = {
        "gzip": once,
        "deflate": _BOMB,
        "deflate, gzip": twice,
        "deflate, gzip, gzip": gzip.compress(twice, 9),
        "br": b"\x8f\xff\x7f",
        "zstd": b"\x28\xb5\x2f\xfd\xa4\xff\xff\xff\x7f",
        "gzip, deflate, br, zstd": once,
        ", ".join(["gzip"] * 500): once,
        "nonsense": b"x" * 100,
    }
    for encoding, body in bombs.items():
        headers = {**_XML, "Content-Encoding": encoding}
        yield HostileAnswer(f"{code} in {encoding[:30]}", status(code, body, headers=headers))


def _bodies() -> Iterator[HostileAnswer]:
    yield HostileAnswer("endless", _endless)
    yield HostileAnswer("endless refusal", _endless_refusal)
    yield HostileAnswer("dripping", _dripping)
    yield HostileAnswer("hanging", hang())
    yield HostileAnswer("closed early", close_early())
    yield HostileAnswer("reset", reset())
    yield HostileAnswer("no HTTP", garbage())
    yield HostileAnswer("entities", status(200, _LAUGHS, headers=_XML), harmless=True)
    yield HostileAnswer("deep", status(200, b"<a>" * 200_000, headers=_XML))
    yield HostileAnswer("attributes", status(200, _many_attributes(), headers=_XML), harmless=True)
    yield HostileAnswer("empty", status(200, b"", headers=_XML))
    yield HostileAnswer("nulls", status(200, bytes(100_000), headers=_XML))
    yield HostileAnswer("half", status(200, _GOOD[:-1], headers=_XML))
    yield HostileAnswer("longer than it says", _sized(b"5"))
    yield HostileAnswer("shorter than it says", _sized(b"99999"))
    yield HostileAnswer("negative size", _sized(b"-1"))
    yield HostileAnswer("two sizes", _sized(b"11\r\nContent-Length: 12"))
    yield HostileAnswer("size and chunks", _sized(b"11\r\nTransfer-Encoding: chunked"))
    yield HostileAnswer("packed transfer", _sized(b"11\r\nTransfer-Encoding: gzip, chunked"))
    yield HostileAnswer("huge chunk", _chunked(b"ffffffffffffffff\r\nabc"))
    yield HostileAnswer("endless chunk size", _chunked(b"0" * 200_000))
    yield HostileAnswer("not a chunk", _chunked(b"hello\r\n"))


def _heads() -> Iterator[HostileAnswer]:
    yield HostileAnswer("twenty thousand headers", _head(b"X-A: b\r\n" * 20_000))
    yield HostileAnswer("header of a megabyte", _head(b"X-A: " + b"b" * 1_000_000 + b"\r\n"))
    yield HostileAnswer("endless head", _endless_head)
    yield HostileAnswer("folded header", _head(b"X-A: b\r\n c\r\n"), harmless=True)
    yield HostileAnswer("control characters", _head(b"X-A: \x00\x01\r\n"))
    yield HostileAnswer("thousand interim answers", _interim)
    for target in ("/convert", "http://127.0.0.1:1/", "file:///etc/passwd", "//[", "x" * 5000):
        for code in (301, 307):
            headers = {**_XML, "Location": target}
            name = f"redirect {code} to {target[:20]}"
            yield HostileAnswer(name, status(code, _GOOD, headers=headers))


def _typed(kind: str) -> dict[str, str]:
    return {"Content-Type": kind} if kind else {}


def _retry_after(value: str) -> Behaviour:
    return status(503, headers={"Retry-After": value})


def _many_attributes() -> bytes:
    return b"<a %s/>" % b" ".join(b'b%d="c"' % number for number in range(50_000))


def _sized(size: bytes) -> Behaviour:
    return _raw(b"Content-Length: " + size + b"\r\n", _GOOD)


def _chunked(body: bytes) -> Behaviour:
    return _raw(b"Transfer-Encoding: chunked\r\n", body)


def _head(headers: bytes) -> Behaviour:
    return _raw(b"Content-Length: 11\r\n" + headers, _GOOD)


def _raw(headers: bytes, body: bytes) -> Behaviour:
    async def answer(exchange: Exchange) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n" + headers + b"\r\n"
        await exchange.send(head + body)
        exchange.close()

    return answer


async def _endless(exchange: Exchange) -> None:
    await exchange.send_head(200, _XML)
    await exchange.send(b"<document>")
    while True:
        await exchange.send(_PIECE)
        await asyncio.sleep(_PAUSE)


async def _endless_refusal(exchange: Exchange) -> None:
    await exchange.send_head(400, {"Content-Type": "application/json"})
    while True:
        await exchange.send(b'{"error": ' * 1000)
        await asyncio.sleep(_PAUSE)


async def _endless_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.send(b"X-A: b\r\n" * 100)
        await asyncio.sleep(_PAUSE)


async def _interim(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1000)
    exchange.close()


async def _dripping(exchange: Exchange) -> None:
    await exchange.send_head(200, _XML)
    for letter in b"<document>" + b" " * 100_000:
        await exchange.send(bytes([letter]))
        await asyncio.sleep(_PAUSE)
