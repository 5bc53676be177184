"""Requests of web pages, and for hosts of other names."""

import pytest
from tests.apps.conversion.gateway_process import start
from tests.apps.conversion.pdf_writer import Text, document

from holdfast_conversion.gateway.origin_check import host_name

HELLO = document([Text(72, 700, "Hello")])


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://elsewhere.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        # The gateway has no pages: one of the same origin is one whose name resolves to us.
        {"sec_fetch_site": "same-origin"},
        {"host": "elsewhere.example"},
        {"host": "elsewhere.example:8100"},
        {"host": "127.0.0.1.elsewhere.example"},
    ],
)
def test_a_page_of_another_origin_is_refused_before_its_file_is_read(gateway, headers):
    before = gateway.health()["converted"]

    answer = gateway.convert(HELLO, **headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert gateway.health()["converted"] == before


def test_health_is_not_for_pages_either(gateway):
    assert gateway.client.get("/health", headers={"host": "elsewhere"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "LocalHost:8100"},
        {"host": "[::1]:8100"},
        {"host": "192.0.2.7"},
        {"host": "converter:8100"},
        {"sec_fetch_site": "none"},
    ],
)
def test_programs_call_it_by_address_or_by_a_name_that_it_was_given(named, headers):
    assert named.convert(HELLO, **headers).status_code == 200


@pytest.fixture(scope="module")
def named():
    with start({"children": 1, "names": ["Converter"]}, {}) as running:
        yield running


@pytest.mark.parametrize(
    "host, name",
    [("a:1", "a"), ("A", "a"), ("[::1]", "[::1]"), ("[::1]:8100", "[::1]"), ("", "")],
)
def test_a_host_has_a_name_and_perhaps_a_port(host, name):
    assert host_name(host) == name
