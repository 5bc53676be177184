"""Which errors of providers are about the setup of the caller, by the errors of the real SDKs."""

import pytest
from tests.support.providers import GEMINI, PROVIDERS, WRONG_KEY

from holdfast import Permanent
from holdfast.providers import is_setup_error
from holdfast.testing.downstream import ScriptedDownstream, status

EACH = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda each: each.name)


def error_of(provider, answer):
    with ScriptedDownstream() as server:
        server.script(*[answer] * 5)
        (result,) = provider.call("async", server)
    return result.error


@EACH
@pytest.mark.parametrize("number", [401, 403, 404, 405])
def test_a_refusal_of_the_caller_is_about_the_setup(provider, number):
    assert is_setup_error(error_of(provider, status(number)))


@EACH
@pytest.mark.parametrize("number", [400, 409, 413, 422, 429, 500, 503])
def test_a_refusal_of_the_request_and_an_outage_are_not(provider, number):
    assert not is_setup_error(error_of(provider, status(number)))


def test_a_wrong_key_of_gemini_is_a_400_with_a_reason_of_its_own():
    assert is_setup_error(error_of(GEMINI, status(400, json=WRONG_KEY)))


def test_an_error_without_a_status_is_not_about_the_setup():
    assert not is_setup_error(Permanent("GW_4XX", "the model refused to answer: 404"))
    assert not is_setup_error(ConnectionError("404"))
