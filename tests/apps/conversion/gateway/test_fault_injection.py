"""Faults on command, seen by a real client."""

import socket
import time

import httpx
import pytest
from lxml import etree
from tests.apps.conversion.gateway_process import start
from tests.apps.conversion.pdf_writer import Text, document
from tests.support.waiting import SOON

HELLO = document([Text(72, 700, "Hello")])


@pytest.fixture(scope="module")
def chaotic():
    with start({"chaos": True, "children": 1}, {}) as running:
        yield running


@pytest.fixture(autouse=True)
def calm(chaotic):
    yield
    assert chaotic.client.delete("/chaos").json() == {"mode": None}


def ask(chaotic, **fault):
    answer = chaotic.client.put("/chaos", json=fault)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_startup_line_mentions_fault_injection(chaotic):
    assert chaotic.announced.endswith("(faults at /chaos)")


def test_fail_answers_with_the_status_for_so_many_requests(chaotic):
    ask(chaotic, mode="fail", status=502, requests=2)
    assert [chaotic.convert(HELLO).status_code for _ in range(3)] == [502, 502, 200]


def test_fail_affects_a_share_of_requests(chaotic):
    ask(chaotic, mode="fail", share=0.5)
    answers = [chaotic.client.get("/health").status_code for _ in range(60)]
    assert 5 < answers.count(500) < 55


def test_a_fault_ends_after_its_seconds(chaotic):
    ask(chaotic, mode="fail", seconds=0.3)
    ends = time.monotonic() + SOON
    while chaotic.client.get("/chaos").json() != {"mode": None}:
        assert time.monotonic() < ends, "it did not end"
    assert chaotic.client.get("/health").status_code == 200


def test_slow_answers_after_its_delay(chaotic):
    ask(chaotic, mode="slow", delay=0.4, requests=1)
    begun = time.monotonic()
    assert chaotic.convert(HELLO).status_code == 200
    assert time.monotonic() - begun >= 0.4


def test_hang_never_answers(chaotic):
    ask(chaotic, mode="hang", requests=1)
    with pytest.raises(httpx.ReadTimeout):
        chaotic.client.post("/convert?mapping=text", content=HELLO, timeout=2)
    assert chaotic.convert(HELLO).status_code == 200


def test_reset_breaks_the_connection(chaotic):
    ask(chaotic, mode="reset", requests=1)
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        chaotic.convert(HELLO)


def test_cut_breaks_off_in_the_middle_of_the_answer(chaotic):
    ask(chaotic, mode="cut", requests=1)
    seen = bytearray()
    with chaotic.client.stream("POST", "/convert?mapping=text", content=HELLO) as answer:
        assert answer.status_code == 200
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            seen.extend(byte for piece in answer.iter_bytes() for byte in piece)
    assert int(answer.headers["content-length"]) > 1000


def test_garbage_is_a_success_without_xml(chaotic):
    ask(chaotic, mode="garbage", requests=1)
    answer = chaotic.convert(HELLO)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/xml"
    with pytest.raises(etree.XMLSyntaxError):
        etree.fromstring(answer.content)


def test_vanish_refuses_connections_and_then_ends(chaotic):
    ask(chaotic, mode="vanish", seconds=2)
    ends = time.monotonic() + SOON
    while can_connect(chaotic.port):
        assert time.monotonic() < ends, "it did not vanish"
    while not can_connect(chaotic.port):
        assert time.monotonic() < ends, "it did not come back"
        time.sleep(0.02)
    assert chaotic.convert(HELLO).status_code == 200


def can_connect(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:  # refused, or reset while the listener closes
        return False
    return True


def test_the_active_fault_can_be_read(chaotic):
    told = ask(chaotic, mode="slow", delay=1, seconds=50, requests=9, share=0.25)
    assert told["mode"] == "slow"
    assert told["requestsLeft"] == 9
    assert 0 < told["secondsLeft"] <= 50
    assert chaotic.client.get("/chaos").json()["share"] == 0.25


@pytest.mark.parametrize(
    "fault",
    [
        {},
        [],
        {"mode": "explode"},
        {"mode": "fail", "status": 404},
        {"mode": "fail", "share": 2},
        {"mode": "fail", "share": True},
        {"mode": "fail", "requests": 0},
        {"mode": "fail", "requests": 1.5},
        {"mode": "fail", "requests": "2"},
        {"mode": "fail", "status": 500.7},
        {"mode": "fail", "forever": 1},
        {"mode": "slow", "delay": "long"},
        {"mode": "vanish"},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(chaotic, fault):
    answer = chaotic.client.put("/chaos", json=fault)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"


def test_a_command_that_is_not_json_or_too_long_is_refused(chaotic):
    assert chaotic.client.put("/chaos", content=b"{").status_code == 400
    assert chaotic.client.put("/chaos", content=b" " * 5000).status_code == 400
    assert chaotic.client.put("/chaos", content=b"[" * 4000).status_code == 400


def test_a_page_with_another_name_cannot_ask_for_faults(chaotic):
    for host in ("evil.example", "evil.example:80", "localhost.evil.example"):
        answer = chaotic.client.put("/chaos", json={"mode": "hang"}, headers={"host": host})
        assert answer.status_code == 403
    assert chaotic.client.get("/chaos", headers={"host": "localhost"}).json() == {"mode": None}
