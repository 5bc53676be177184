"""Answers of the gateway that are not about a file; test_job.py tests the others."""

import asyncio
import gzip
import json

import httpx
import pytest

from holdfast import ErrorCode, Permanent
from holdfast.testing.downstream import ScriptedDownstream, status
from holdfast_conversion.gateway_client import GatewayClient, GatewayError

XML = b"<document/>"


def converted(url):
    async def pdf():
        yield b"%PDF"

    async def scenario():
        async with GatewayClient(url, 20.0).convert(pdf(), 4, "text", "a-key") as pieces:
            return b"".join([piece async for piece in pieces])

    return asyncio.run(scenario())


def refused(url, kind=Permanent):
    with pytest.raises(kind) as found:
        converted(url)
    return found.value


def packed(code, body, encoding):
    headers = {"Content-Type": "application/xml", "Content-Encoding": encoding}
    return status(code, body, headers=headers)


@pytest.mark.parametrize("answer", [401, 403, 404, 405])
def test_an_answer_that_is_not_about_the_file_has_advice_for_operators_in_the_log(answer, caplog):
    with ScriptedDownstream() as gateway:
        gateway.script(status(answer, json={"error": {"code": "X", "message": "No such thing."}}))

        error = refused(gateway.url)

    assert error.code is ErrorCode.GW_4XX
    assert str(error) == (
        "There is no converter at present. Please tell the operator of this service."
    )
    assert caplog.messages == [
        f"HTTP {answer}: no converter answers at its address; check GATEWAY_URL"
    ]


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate", "br", "zstd", " GZIP", "x"])
def test_an_answer_with_a_content_encoding_is_a_failure_of_the_gateway(encoding):
    with ScriptedDownstream() as gateway:
        gateway.script(packed(200, gzip.compress(XML), encoding))

        assert refused(gateway.url, GatewayError).code is ErrorCode.GW_5XX
        assert gateway.requests[0].headers["accept-encoding"] == "identity"


def test_the_identity_encoding_changes_nothing():
    with ScriptedDownstream() as gateway:
        gateway.script(packed(200, XML, "identity"))

        assert converted(gateway.url) == XML


def test_the_reason_of_a_refusal_is_not_unpacked():
    reason = json.dumps({"error": {"message": "No such thing."}}).encode()
    with ScriptedDownstream() as gateway:
        gateway.script(packed(400, gzip.compress(reason), "gzip"))

        line = "Couldn’t convert this file with the selected mapping."
        assert str(refused(gateway.url)) == line


def test_the_health_check_reads_the_status_alone():
    """Its body is not valid in its encoding: reading it would fail."""
    with ScriptedDownstream() as gateway:
        gateway.script(packed(200, b"not gzip", "gzip"), packed(302, b"", "gzip"))
        client = GatewayClient(gateway.url, 20.0)

        asyncio.run(client.check())
        with pytest.raises(httpx.HTTPStatusError):
            asyncio.run(client.check())
