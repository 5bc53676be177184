"""Answers of the gateway that are not about a file; test_job.py tests the others."""

import asyncio

import pytest

from holdfast import ErrorCode, Permanent
from holdfast.testing.downstream import ScriptedDownstream, status
from holdfast_conversion.gateway_client import GatewayClient


def refused(url):
    async def pdf():
        yield b"%PDF"

    async def scenario():
        async with GatewayClient(url, 20.0).convert(pdf(), 4, "text", "a-key"):
            pytest.fail("it was not refused")

    with pytest.raises(Permanent) as found:
        asyncio.run(scenario())
    return found.value


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
