"""Hostile files, limits and signals: the server keeps running, and every file gets an answer."""

import os
import signal
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.apps.conversion.gateway_process import ticks
from tests.apps.conversion.hostile_pdfs import BUILDERS, decompression_bomb, endless_pages
from tests.apps.conversion.pdf_writer import Text, document, paragraph
from tests.support.processes import is_alive

HELLO = document([Text(72, 700, "Hello")])
ANSWERS = {200, 400, 413}


def until(fact):
    """Poll until the answer is true."""
    give_up = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize("name", BUILDERS)
def test_a_hostile_pdf_gets_an_answer_and_does_no_harm(gateway, name):
    answer = gateway.convert(BUILDERS[name](), "layout")
    assert answer.status_code in ANSWERS, answer.text
    if answer.status_code == 200:
        etree.fromstring(answer.content, etree.XMLParser(huge_tree=True))
    else:
        assert set(answer.json()["error"]) == {"code", "message"}
    assert "<p>Hello</p>" in gateway.convert(HELLO).text


@pytest.mark.parametrize(
    "name", ["locked", "only_a_header", "header_and_noise", "no_pages", "not_even_a_catalog"]
)
def test_an_unreadable_pdf_is_reported(gateway, name):
    assert code_of(gateway.convert(BUILDERS[name]())) == (400, "PARSE_ERROR")


def test_too_many_pages_and_too_much_xml_are_too_large(start_gateway):
    tight = start_gateway({"children": 1}, caps={"pages": 3, "output_bytes": 3000})
    page = [Text(72, 700, "x")]
    assert tight.convert(document(page, page, page)).status_code == 200
    assert code_of(tight.convert(document(page, page, page, page))) == (413, "TOO_LARGE")
    full = document(paragraph(40, 780, ["many words to fill a page"] * 50))
    assert code_of(tight.convert(full, "layout")) == (413, "TOO_LARGE")
    assert tight.convert(full, "text").status_code == 200


def test_computing_time_is_bounded(start_gateway):
    tight = start_gateway({"children": 1}, {"cpu_seconds": 1})
    assert code_of(tight.convert(endless_pages(), "layout")) == (400, "TIMEOUT")
    assert tight.convert(HELLO).status_code == 200


def test_memory_is_bounded(start_gateway):
    tight = start_gateway({"children": 1}, {"memory_bytes": 220 << 20, "cpu_seconds": 20})
    status, code = code_of(tight.convert(decompression_bomb(), "layout"))
    assert (status, code) in {(400, "MEMORY_ERROR"), (400, "PARSE_ERROR")}
    assert tight.convert(HELLO).status_code == 200


def test_a_hanging_child_is_ended_and_the_next_request_converts_again(start_gateway):
    one = start_gateway({"children": 1}, {"wall_seconds": 1.5})
    (child,) = one.children()
    os.kill(child, signal.SIGSTOP)
    answer = one.convert(HELLO, Idempotency_Key="hanging")
    assert code_of(answer) == (400, "TIMEOUT")
    until(lambda: not is_alive(child))
    # The next child must start within the start timeout.
    until(lambda: one.convert(HELLO, Idempotency_Key="hanging").status_code == 200)


def killed(killing, number, **headers):
    """Send the only child a signal while it converts a long file; return the answer."""
    (child,) = killing.children()
    at_rest = ticks(child)
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(killing.convert(LONG, "layout", **headers))
    )
    asking.start()
    # A child that is not busy may not have taken the file; then another one does.
    while ticks(child) < at_rest + 5:
        time.sleep(0.005)
    os.kill(child, number)
    asking.join()
    assert "<p>Hello</p>" in killing.convert(HELLO).text
    assert child not in killing.children()
    return answers[0]


@pytest.mark.parametrize(
    "number, expected",
    [
        (signal.SIGSEGV, (400, "PARSE_ERROR")),
        (signal.SIGABRT, (400, "PARSE_ERROR")),
        (signal.SIGXCPU, (400, "TIMEOUT")),
        (signal.SIGTERM, (503, "GW_UNAVAILABLE")),
        (signal.SIGKILL, (503, "GW_UNAVAILABLE")),
    ],
)
def test_a_child_that_dies_over_a_file_is_an_answer_about_that_file(killing, number, expected):
    assert code_of(killed(killing, number)) == expected


def test_a_file_whose_child_is_killed_again_and_again_is_refused_until_it_is_not(start_gateway):
    one = start_gateway({"children": 1})
    key = {"idempotency_key": "a-job"}

    answers = [killed(one, signal.SIGKILL, **key) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [503, 503, 400, 400]
    assert "retry-after" in answers[0].headers
    assert code_of(answers[2]) == (400, "PARSE_ERROR")
    assert "again and again" in answers[2].json()["error"]["message"]
    assert one.convert(LONG, "layout", **key).status_code == 200


def test_a_crash_is_not_cached_for_the_next_request(killing):
    key = {"idempotency_key": "crashed"}

    assert code_of(killed(killing, signal.SIGSEGV, **key)) == (400, "PARSE_ERROR")
    assert killing.convert(LONG, "layout", **key).status_code == 200


LONG = document(*[paragraph(40, 780, ["words to take time with, and more"] * 60, 9)] * 150)


@pytest.fixture(scope="module")
def killing():
    from tests.apps.conversion.gateway_process import start

    with start({"children": 1}, {}) as running:
        yield running


def test_a_child_killed_while_idle_is_replaced_unseen(killing):
    for child in killing.children():
        os.kill(child, signal.SIGKILL)
    assert killing.convert(HELLO).status_code == 200


def test_children_are_replaced_when_they_are_worn(start_gateway):
    one = start_gateway({"children": 1}, {"files": 2})
    (first,) = one.children()
    assert one.convert(HELLO).status_code == one.convert(HELLO).status_code == 200
    assert one.convert(HELLO).status_code == 200
    assert first not in one.children()


def test_children_end_with_a_server_that_is_killed(start_gateway):
    one = start_gateway({"children": 2})
    children = one.children()
    assert len(children) == 2
    one.process.kill()
    one.process.wait()
    until(lambda: not any(is_alive(child) for child in children))


BASES = [
    HELLO,
    document(
        paragraph(72, 700, ["Some words (to) mutate", "and more"]),
        [Text(300, 300, "turned", turn=1)],
        rotate=90,
        info={"Title": "T"},
        bookmarks=["One", "Two"],
        to_unicode={code: chr(code + 0x370) for code in range(97, 123)},
    ),
]


@st.composite
def mutated(draw):
    data = bytearray(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 12))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "number"]))
        if change == "flip":
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
        elif change == "cut":
            del data[at : at + draw(st.integers(1, 200))]
        elif change == "insert":
            data[at:at] = draw(st.binary(max_size=40))
        elif change == "repeat":
            data[at:at] = data[at : at + draw(st.integers(1, 300))]
        else:
            data[at:at] = draw(st.sampled_from([b"-1", b"99999999999", b"1e99", b"0", b"2 0 R"]))
    return bytes(data)


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(body=mutated(), mapping=st.sampled_from(["layout", "text", "metadata"]))
def test_no_mutation_of_a_pdf_is_a_failure_of_the_server(gateway, body, mapping):
    answer = gateway.convert(body, mapping)
    assert answer.status_code in ANSWERS, answer.text
    if answer.status_code == 200:
        etree.fromstring(answer.content)
