"""Hostile addresses and hostile answers: none reaches inside, none costs more than the limits."""

import asyncio
import gzip
import time
import tracemalloc
import zlib
from ipaddress import IPv4Address

import pytest
from tests.support.fetching import (
    SMALL,
    Names,
    RecordingBackend,
    guarded,
    refused,
    site_url,
)

from holdfast.errors import ErrorCode
from holdfast.fetch import FetchCode, Fetcher, FetchError, FetchLimits
from holdfast.testing.downstream import ScriptedDownstream, close_early, garbage, hang, status

INSIDE = """
    0.0.0.0 10.0.0.1 10.255.255.1 100.100.100.200 127.0.0.2 127.255.255.254 168.63.129.16
    169.254.169.254 172.16.0.1 172.31.255.254 192.0.0.192 192.168.1.1 198.18.0.1 224.0.0.1
    255.255.255.255
"""

CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")
WIDE = {ord(each): ord(each) + 0xFEE0 for each in "0123456789."}  # the block of fullwidth forms


def spellings(text):
    """Write an IPv4 address in every way that some client understands, as hosts of URLs."""
    address = IPv4Address(text)
    number = int(address)
    a, b, c, d = address.packed
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    yield text
    yield f"{text}."
    yield str(number)
    yield f"0x{number:08x}"
    yield f"0X{number:X}"
    yield f"0{number:o}"
    yield f"0{a:o}.0{b:o}.0{c:o}.0{d:o}"
    yield f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"
    yield f"{a}.{number & 0xFFFFFF}"
    yield f"{a}.{b}.{number & 0xFFFF}"
    yield f"0x{a:x}.{b}.0{number & 0xFFFF:o}"
    yield text.translate(CIRCLED)
    yield text.translate(WIDE)
    yield text.replace(".", "。")
    yield text.replace(".", "\u00ad.", 1)
    yield f"[::ffff:{text}]"
    yield f"[::ffff:{high}:{low}]"
    yield f"[0:0:0:0:0:ffff:{high}:{low}]"
    yield f"[::{text}]"
    yield f"[64:ff9b::{text}]"
    yield f"[64:ff9b:1::{text}]"
    yield f"[64:ff9b:1:{high}:{d:x}:{c:x}00::]"
    yield f"[2002:{high}:{low}::1]"
    yield f"[2001:0:{high}:{low}::1]"
    yield f"[2001::{number >> 16 ^ 0xFFFF:x}:{number & 0xFFFF ^ 0xFFFF:x}]"


HOSTS = [host for text in INSIDE.split() for host in spellings(text)]
HOSTS += ["[::]", "[::1]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]"]
REFUSED = (FetchCode.URL_REFUSED, FetchCode.URL_INVALID)


def test_the_table_is_as_large_as_it_should_be():
    assert len(set(HOSTS)) > 300


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_spelling_of_an_address_inside_is_connected_to(scheme):
    backend, names = RecordingBackend(), Names()
    fetcher = Fetcher(SMALL, backend=backend, resolver=names)

    async def scenario():
        for host in HOSTS:
            with pytest.raises(FetchError) as found:
                await fetcher.get(f"{scheme}://{host}:8080/latest/meta-data")
            assert found.value.code in REFUSED, host
            assert found.value.permanent

    asyncio.run(scenario())
    assert backend.asked == []
    assert names.asked == []  # none was taken for a name, which the system might read otherwise


def test_no_redirect_into_a_private_range_is_followed():
    backend = RecordingBackend()

    async def answer(exchange):
        host = HOSTS[int(exchange.request.query)]
        await exchange.send(
            b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "
            + f"http://{host}/latest/meta-data\r\n\r\n".encode()
        )

    async def scenario(url):
        fetcher = guarded(backend)
        for number, host in enumerate(HOSTS):
            with pytest.raises(FetchError) as found:
                await fetcher.get(f"{url}?{number}")
            assert found.value.code in REFUSED, host

    with ScriptedDownstream(answer) as server:
        asyncio.run(scenario(site_url(server.url)))
        assert len(server.requests) == len(HOSTS)
    assert backend.asked == ["127.0.0.1"] * len(HOSTS)


@pytest.mark.parametrize(
    "answers",
    [
        ["10.0.0.1"],
        ["127.0.0.1 10.0.0.1"],
        ["10.0.0.1 127.0.0.1"],
        ["8.8.8.8 ::1"],
        ["8.8.8.8 ::ffff:169.254.169.254"],
        ["2606:4700::1 64:ff9b::a00:1"],
        ["fe80::1%lo"],
        ["0.0.0.0"],
    ],
)
def test_no_name_with_an_address_inside_is_connected_to(answers):
    backend = RecordingBackend()
    fetcher = guarded(backend, resolver=Names(site_example=answers))

    refused(fetcher, "http://site.example/", FetchCode.URL_REFUSED)
    assert backend.asked == []


@pytest.mark.parametrize("turns", range(4))
def test_a_name_that_rebinds_at_any_hop_is_refused_there(turns):
    backend = RecordingBackend()
    names = Names(site_example=[*["127.0.0.1"] * turns, "10.0.0.1"])
    with ScriptedDownstream(status(302, headers={"Location": "/again"})) as server:
        refused(guarded(backend, resolver=names), site_url(server.url), FetchCode.URL_REFUSED)

    assert backend.asked == ["127.0.0.1"] * turns
    assert names.asked == ["site.example"] * (turns + 1)


def head(*lines, code=200):
    return "\r\n".join([f"HTTP/1.1 {code} X", *lines, "", ""]).encode()


def sends(*parts):
    """Send the parts as they are, then close."""

    async def answer(exchange):
        for part in parts:
            await exchange.send(part)
        exchange.close()

    return answer


def endless(first, part, pause=0.0):
    """Send `first`, and `part` until the client goes."""

    async def answer(exchange):
        await exchange.send(first)
        while True:
            await exchange.send(part)
            await asyncio.sleep(pause)

    return answer


def leads_to(location):
    return status(302, headers={"Location": location})


def packed(data, encoding, code=200):
    lines = [f"Content-Encoding: {encoding}", f"Content-Length: {len(data)}"]
    return sends(head(*lines, code=code), data)


BOMB = gzip.compress(b"\0" * 30 * 2**20)
CHUNKED = head("Transfer-Encoding: chunked")
TOO_LARGE, BAD, TIMEOUT = (
    FetchCode.FETCH_TOO_LARGE,
    FetchCode.FETCH_BAD_ANSWER,
    FetchCode.FETCH_TIMEOUT,
)
ANSWERS = {
    # Bodies without end, and sizes that are not true.
    "endless body": (endless(head(), b"x" * 65536), TOO_LARGE),
    "endless body of a stated size": (
        endless(head("Content-Length: 99999999999"), b"x"),
        TOO_LARGE,
    ),
    "endless chunks": (endless(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"), TOO_LARGE),
    "endless tiny chunks": (endless(CHUNKED, b"1\r\nx\r\n" * 5000), TOO_LARGE),
    "one chunk without end": (endless(CHUNKED + b"fffffffffff\r\n", b"x" * 65536), TOO_LARGE),
    "chunks of extensions": (
        endless(CHUNKED, b"1;" + b"e" * 20_000 + b"\r\nx\r\n"),
        TOO_LARGE,
    ),
    "a chunk size that does not end": (endless(CHUNKED, b"0" * 1000), BAD),
    "a chunk size that is not one": (sends(CHUNKED, b"xyz\r\n"), BAD),
    "a negative chunk": (sends(CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n"), BAD),
    "chunks that end early": (sends(CHUNKED, b"5\r\nhel"), BAD),
    "chunks without a last one": (sends(CHUNKED, b"5\r\nhello\r\n"), BAD),
    "a body shorter than stated": (close_early(b"half"), BAD),
    "no body at all": (sends(head("Content-Length: 5")), BAD),
    "two sizes": (sends(head("Content-Length: 5", "Content-Length: 6"), b"hello"), BAD),
    "a negative size": (sends(head("Content-Length: -1"), b"hello"), BAD),
    "a size in words": (sends(head("Content-Length: five"), b"hello"), BAD),
    "a size with a sign": (sends(head("Content-Length: +5"), b"hello"), BAD),
    "an unknown transfer encoding": (sends(head("Transfer-Encoding: gzip"), b"hello"), BAD),
    # Compression.
    "a gzip bomb": (packed(BOMB, "gzip"), TOO_LARGE),
    "a deflate bomb": (packed(zlib.compress(b"\0" * 30 * 2**20), "deflate"), TOO_LARGE),
    "a bomb in a bomb": (packed(gzip.compress(BOMB), "gzip, gzip"), BAD),
    "a bomb in chunks": (
        sends(
            head("Content-Encoding: gzip", "Transfer-Encoding: chunked"),
            b"%x\r\n" % len(BOMB) + BOMB + b"\r\n0\r\n\r\n",
        ),
        TOO_LARGE,
    ),
    "many encodings": (packed(b"x", ", ".join(["gzip"] * 1000)), BAD),
    "an encoding not offered": (packed(b"x", "br"), BAD),
    "another one": (packed(b"x", "zstd"), BAD),
    "no gzip at all": (packed(b"hello", "gzip"), BAD),
    "half of a gzip": (packed(gzip.compress(b"hello" * 99)[:20], "gzip"), BAD),
    "gzip with a wrong checksum": (packed(gzip.compress(b"hello")[:-8] + b"\1" * 8, "gzip"), BAD),
    # Headers.
    "endless headers": (endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 100), BAD),
    "one endless header": (endless(b"HTTP/1.1 200 OK\r\nX-A: ", b"b" * 1000), BAD),
    "an endless status line": (endless(b"HTTP/1.1 200 ", b"O" * 1000), BAD),
    "endless interim answers": (
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
        TOO_LARGE,
    ),
    "endless early hints": (
        endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" * 500),
        TOO_LARGE,
    ),
    "a header with a zero byte": (sends(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"), BAD),
    "endless trailers": (endless(CHUNKED + b"0\r\n", b"X-A: b\r\n" * 100), BAD),
    # Not HTTP, or not an answer to this request.
    "garbage": (garbage(), BAD),
    "HTTP/0.9": (sends(b"<html>hello"), BAD),
    "another protocol": (sends(b"SSH-2.0-OpenSSH_9.2\r\n"), BAD),
    "nothing": (close_early(), BAD),
    "a switch of protocols": (sends(head("Upgrade: x", "Connection: upgrade", code=101)), BAD),
    "a part": (sends(head("Content-Length: 1", code=206), b"x"), BAD),
    "nothing new, unasked": (sends(head(code=304)), BAD),
    "choices": (sends(head("Content-Length: 0", code=300)), BAD),
    "an unknown status": (sends(head("Content-Length: 0", code=799)), BAD),
    "a failure with an endless body": (
        endless(head(code=500), b"x" * 65536),
        FetchCode.FETCH_5XX,
    ),
    "a bomb as a failure": (packed(BOMB, "gzip", code=404), FetchCode.FETCH_4XX),
    "a wait of a thousand years": (
        status(429, retry_after="9" * 30),
        ErrorCode.RATE_LIMITED,
    ),
    # Redirects.
    "a redirect to nowhere": (sends(head("Content-Length: 0", code=302)), BAD),
    "a redirect with an endless body": (
        endless(head("Location: http://10.0.0.1/", code=302), b"x" * 65536),
        FetchCode.URL_REFUSED,
    ),
    "a redirect in a circle": (leads_to("/"), FetchCode.FETCH_TOO_MANY_REDIRECTS),
    "to a file": (leads_to("file:///etc/passwd"), FetchCode.URL_INVALID),
    "to gopher": (leads_to("gopher://127.0.0.1:6379/_x"), FetchCode.URL_INVALID),
    "to ftp": (leads_to("ftp://site.example/"), FetchCode.URL_INVALID),
    "to data": (leads_to("data:text/html,hello"), FetchCode.URL_INVALID),
    "to a user": (leads_to("http://site.example@10.0.0.1/"), FetchCode.URL_INVALID),
    "behind a backslash": (leads_to("http://site.example\\@10.0.0.1/"), FetchCode.URL_INVALID),
    "to mail": (leads_to("http://site.example:25/"), FetchCode.URL_REFUSED),
    "to a long address": (leads_to("/" + "a" * 9000), FetchCode.URL_INVALID),
    "to an unknown name": (leads_to("http://x.invalid/"), FetchCode.HOST_NOT_FOUND),
    "without a scheme": (leads_to("//10.0.0.1/"), FetchCode.URL_REFUSED),
}
"""Answers of a server that means harm, each with the code of the error."""

SLOW = {
    "silence": hang(),
    "a body that drips": endless(head("Content-Length: 200000"), b"x", 0.02),
    "chunks that drip": endless(CHUNKED, b"1\r\nx\r\n", 0.02),
    "gzip that drips": endless(head("Content-Encoding: gzip") + BOMB[:20], b"\0", 0.02),
    "headers that drip": endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", 0.02),
    "a status that drips": endless(b"HTTP/1.1 200 O", b"O", 0.02),
    "interim answers that drip": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "a body that stops": endless(head("Content-Length: 9") + b"x", b"", 0.02),
}
"""Answers that take for ever."""


@pytest.mark.parametrize("name", ANSWERS)
def test_a_hostile_answer_is_an_error_and_costs_no_more_than_the_limits(name):
    answer, code = ANSWERS[name]
    backend = RecordingBackend()
    with ScriptedDownstream(answer) as server:
        tracemalloc.start()
        try:
            refused(guarded(backend), site_url(server.url), code)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert set(backend.asked) == {"127.0.0.1"}
    # The server's own buffers are in this figure too.
    assert peak < 6 * 2**20


@pytest.mark.parametrize("name", SLOW)
def test_an_answer_that_takes_for_ever_is_cut_off(name):
    limits = FetchLimits(max_bytes=SMALL.max_bytes, max_seconds=0.3)
    with ScriptedDownstream(SLOW[name]) as server:
        began = time.monotonic()
        refused(guarded(RecordingBackend(), limits), site_url(server.url), TIMEOUT)
        took = time.monotonic() - began

    assert 0.25 < took < 20  # generous: the machine may be busy; a drip would take an hour


def test_a_chain_of_slow_redirects_shares_one_time_limit():
    async def answer(exchange):
        await asyncio.sleep(0.15)
        await exchange.answer(302, {"Location": "/next"}, b"")

    with ScriptedDownstream(answer) as server:
        limits = FetchLimits(max_seconds=0.3, max_redirects=1000)
        refused(guarded(RecordingBackend(), limits), site_url(server.url), TIMEOUT)
        assert len(server.requests) <= 3


def test_a_resolver_that_takes_for_ever_is_cut_off():
    async def silent(host, port):
        await asyncio.sleep(3600)

    fetcher = guarded(RecordingBackend(), FetchLimits(max_seconds=0.1), resolver=silent)

    refused(fetcher, "http://site.example/", TIMEOUT)
