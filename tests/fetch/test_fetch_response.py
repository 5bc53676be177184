"""Answers: whole and in pieces, what belongs to the request and what does not."""

import asyncio
import gzip

import pytest
from tests.support.fetching import (
    SMALL,
    RecordingBackend,
    fetched,
    guarded,
    refused,
    site_url,
)

from holdfast.fetch import FetchCode, Fetched, FetchError, FetchLimits
from holdfast.testing.downstream import ScriptedDownstream, close_early, ok, status


def opened(server, read, limits=SMALL):
    async def scenario():
        async with guarded(RecordingBackend(), limits).open(site_url(server.url)) as response:
            return await read(response)

    return asyncio.run(scenario())


def test_an_answer_has_all_that_a_caller_stores(scripted_downstream):
    headers = {
        "Content-Type": "Text/HTML; Charset=ISO-8859-1",
        "ETag": 'W/"7"',
        "Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT",
        "Content-Encoding": "gzip",
    }
    scripted_downstream.script(ok(gzip.compress(b"<html>"), headers=headers))

    assert fetched(guarded(RecordingBackend()), site_url(scripted_downstream.url, "/a?b#c")) == (
        Fetched(
            url=site_url(scripted_downstream.url, "/a?b"),
            status=200,
            content_type="text/html",
            charset="iso8859-1",
            body=b"<html>",
            etag='W/"7"',
            last_modified="Sat, 01 Jan 2022 00:00:00 GMT",
            not_modified=False,
        )
    )


def test_an_answer_without_headers_has_no_validators(scripted_downstream):
    scripted_downstream.script(status(204))
    answer = fetched(guarded(RecordingBackend()), site_url(scripted_downstream.url))

    assert (answer.status, answer.body, answer.charset) == (204, b"", None)
    assert answer.content_type == "application/octet-stream"
    assert answer.etag is answer.last_modified is None


@pytest.mark.parametrize("etag", ["\xe9", '"' + "x" * 1000 + '"'])
def test_a_validator_that_could_not_be_sent_back_is_dropped(scripted_downstream, etag):
    scripted_downstream.script(ok(b"x", headers={"ETag": etag}))

    assert fetched(guarded(RecordingBackend()), site_url(scripted_downstream.url)).etag is None


def test_a_body_is_streamed_in_pieces_and_its_type_is_known_before(scripted_downstream):
    body = b"<html>" + bytes(range(32, 127)) * 2000
    scripted_downstream.script(ok(body))

    async def read(response):
        assert response.content_type == "text/html"
        assert (response.status, response.not_modified) == (200, False)
        return [piece async for piece in response.pieces()]

    pieces = opened(scripted_downstream, read)
    assert b"".join(pieces) == body
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= 64 * 1024


def test_a_body_that_is_not_read_to_its_end_is_left_alone(scripted_downstream):
    scripted_downstream.script(ok(b"x" * 200_000))

    async def read(response):
        return await anext(response.pieces())

    assert opened(scripted_downstream, read).startswith(b"x")


def test_what_a_block_raises_itself_reaches_its_caller(scripted_downstream):
    async def read(response):
        raise TimeoutError("of the caller")

    with pytest.raises(TimeoutError, match="of the caller") as found:
        opened(scripted_downstream, read)
    assert not isinstance(found.value, FetchError)


def test_the_time_limit_covers_the_block(scripted_downstream):
    async def read(response):
        await asyncio.sleep(60)

    with pytest.raises(FetchError) as found:
        opened(scripted_downstream, read, FetchLimits(max_seconds=0.2))
    assert found.value.code == FetchCode.FETCH_TIMEOUT


def test_a_break_in_the_middle_is_raised_while_the_body_is_read(scripted_downstream):
    scripted_downstream.script(close_early(b"x" * 100_000))

    async def read(response):
        return [piece async for piece in response.pieces()]

    with pytest.raises(FetchError) as found:
        opened(scripted_downstream, read)
    assert found.value.code == FetchCode.FETCH_BAD_ANSWER
    assert not found.value.permanent


def test_an_announced_size_over_the_limit_is_refused_before_the_body(scripted_downstream):
    async def announce(exchange):
        await exchange.send_head(200, {"Content-Length": str(10**12)})
        await exchange.wait_for_release()

    scripted_downstream.script(announce)
    refused(
        guarded(RecordingBackend()), site_url(scripted_downstream.url), FetchCode.FETCH_TOO_LARGE
    )


@pytest.mark.parametrize("size, fits", [(SMALL.max_bytes, True), (SMALL.max_bytes + 1, False)])
@pytest.mark.parametrize("chunked", [False, True])
def test_the_limit_on_bytes_is_exact(size, fits, chunked):
    async def answer(exchange):
        body = b"x" * size
        if not chunked:
            return await exchange.answer(200, {}, body)
        await exchange.send_head(200, {"Transfer-Encoding": "chunked"})
        return await exchange.send(f"{size:x}\r\n".encode() + body + b"\r\n0\r\n\r\n")

    with ScriptedDownstream(answer) as server:
        fetcher = guarded(RecordingBackend())
        if fits:
            assert len(fetched(fetcher, site_url(server.url)).body) == size
        else:
            refused(fetcher, site_url(server.url), FetchCode.FETCH_TOO_LARGE)


def test_bytes_after_the_announced_size_are_not_part_of_the_body(scripted_downstream):
    async def answer(exchange):
        await exchange.send_head(200, {"Content-Length": "3"})
        await exchange.send(b"abcdef")

    scripted_downstream.script(answer)
    assert fetched(guarded(RecordingBackend()), site_url(scripted_downstream.url)).body == b"abc"
