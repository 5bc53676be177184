"""The gateway over HTTP, in its real processes on the loopback."""

import contextlib
import hashlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lxml import etree
from tests.apps.conversion.pdf_writer import Text, document, locked, paragraph

HELLO = document([Text(72, 700, "Hello & <goodbye>")])


def long_document(pages=60):
    row = "Nothing here is meant to be read by anyone at all; it is here to take time."
    return document(*[paragraph(40, 780, [row] * 60, 10) for _ in range(pages)], size=(595, 842))


def error_of(answer):
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert "\n" not in body["error"]["message"]
    assert 0 < len(body["error"]["message"]) < 120
    return answer.status_code, body["error"]["code"]


@pytest.mark.parametrize("mapping", ["layout", "text", "metadata"])
def test_a_pdf_becomes_xml(gateway, mapping):
    answer = gateway.convert(HELLO, mapping, content_type="application/pdf")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/xml"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert etree.fromstring(answer.content).tag == f"{{urn:holdfast:{mapping}:1}}document"


def test_the_children_are_confined(gateway):
    assert gateway.health() | {"converted": 0} == {
        "status": "ok",
        "children": 2,
        "idle": 2,
        "requests": 0,
        "confined": True,
        "converted": 0,
    }


@pytest.mark.parametrize(
    "body, status, code",
    [
        (b"", 400, "NOT_PDF"),
        (b"PK\x03\x04" + bytes(5000), 400, "NOT_PDF"),
        (b"hello", 400, "NOT_PDF"),
        (bytes(1024) + HELLO, 400, "NOT_PDF"),
        (b"%PDF-1.4\nnothing more", 400, "PARSE_ERROR"),
        (HELLO[:60], 400, "PARSE_ERROR"),
        (locked(), 400, "PARSE_ERROR"),
    ],
)
def test_an_unreadable_pdf_is_refused_with_a_reason(gateway, body, status, code):
    assert error_of(gateway.convert(body)) == (status, code)


def test_a_locked_pdf_is_distinguished_from_a_damaged_one(gateway):
    assert "password" in gateway.convert(locked()).json()["error"]["message"]


def test_a_pdf_may_begin_after_other_bytes(gateway):
    assert gateway.convert(b"\n" * 1000 + HELLO).status_code == 200


@pytest.mark.parametrize("mapping", ["", "Layout", "xslt", "text "])
def test_an_unknown_mapping_is_a_bad_request(gateway, mapping):
    assert error_of(gateway.convert(HELLO, mapping)) == (400, "INVALID_MAPPING")


@pytest.mark.parametrize(
    "kind, status",
    [
        ("application/pdf", 200),
        ("Application/PDF; charset=binary", 200),
        ("application/octet-stream", 200),
        ("text/html", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
def test_a_content_type_that_is_given_must_be_pdf(gateway, kind, status):
    assert gateway.convert(HELLO, content_type=kind).status_code == status


@pytest.mark.parametrize(
    "accept, status",
    [("*/*", 200), ("text/html, application/xml;q=0.9", 200), ("application/json", 406)],
)
def test_only_xml_can_be_accepted(gateway, accept, status):
    assert gateway.convert(HELLO, accept=accept).status_code == status


def test_unknown_paths_and_methods_get_the_same_kind_of_body(gateway):
    assert error_of(gateway.client.get("/nothing"))[0] == 404
    assert error_of(gateway.client.get("/convert"))[0] == 405
    assert error_of(gateway.client.put("/chaos", json={"mode": "fail"}))[0] == 404


def test_the_api_describes_itself(gateway):
    described = gateway.client.get("/openapi.json").json()["paths"]["/convert"]["post"]
    assert set(described["responses"]) >= {"200", "400", "406", "413", "415", "422", "503"}
    assert "application/pdf" in described["requestBody"]["content"]


# -- bodies ----------------------------------------------------------------------------------------


def talk(gateway, data, *, half_close=False):
    """Send raw bytes and return everything received until the connection ends."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as connection:
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        back = b""
        while chunk := connection.recv(65536):
            back += chunk
        return back


def head(*lines):
    first = ["POST /convert?mapping=text HTTP/1.1", "Host: 127.0.0.1", *lines]
    return ("\r\n".join(first) + "\r\n\r\n").encode()


def test_a_declared_size_above_the_limit_is_refused_without_reading(start_gateway):
    small = start_gateway({"max_upload_bytes": 1000, "children": 1})
    back = talk(small, head("Content-Length: 1001"))
    assert back.startswith(b"HTTP/1.1 413 ")
    assert b"TOO_LARGE" in back
    body = HELLO + b"%" * (1000 - len(HELLO))
    assert small.convert(body).status_code == 200
    assert error_of(small.convert(body + b"%")) == (413, "TOO_LARGE")
    sent = []

    def endless():
        yield HELLO
        for _ in range(100_000):
            sent.append(1)
            yield b"%" * 65536

    assert error_of(small.convert(endless())) == (413, "TOO_LARGE")
    assert len(sent) < 1000
    assert small.health()["requests"] == 0


def test_a_body_that_is_cut_off_leaves_nothing_behind(gateway):
    before = scratch_files(gateway)
    back = talk(gateway, head("Content-Length: 5000") + HELLO[:400], half_close=True)
    assert back == b"" or back.startswith(b"HTTP/1.1 400 ")
    assert gateway.health()["requests"] == 0
    assert scratch_files(gateway) <= before


def scratch_files(gateway):
    """Count the deleted files that the server has open."""
    names = []
    for entry in Path(f"/proc/{gateway.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(str(entry.readlink()))
    return sum("(deleted)" in name for name in names)


def test_a_stalled_body_is_given_up(gateway):
    back = talk(gateway, head("Content-Length: 5000") + HELLO[:400])
    assert back.startswith(b"HTTP/1.1 408 ")
    assert b'"TIMEOUT"' in back


def test_a_zip_is_refused_after_its_first_bytes(gateway):
    sent = []

    def archive():
        for _ in range(100_000):
            sent.append(1)
            yield b"PK\x03\x04" + bytes(65532)

    assert error_of(gateway.convert(archive())) == (400, "NOT_PDF")
    assert len(sent) < 1000


@pytest.mark.parametrize("length", ["-1", "x", "5, 6"])
def test_a_senseless_content_length_is_a_bad_request(gateway, length):
    assert talk(gateway, head(f"Content-Length: {length}")).startswith(b"HTTP/1.1 400 ")


# -- Idempotency-Key -------------------------------------------------------------------------------


def test_the_same_key_and_body_get_the_same_answer_without_a_conversion(gateway):
    body = document([Text(72, 700, "only once")])
    first = gateway.convert(body, Idempotency_Key="once")
    before = gateway.health()["converted"]
    again = gateway.convert(body, Idempotency_Key="once")
    assert (again.status_code, again.content) == (200, first.content)
    assert gateway.health()["converted"] == before


def test_a_refusal_is_remembered_too(gateway):
    first = gateway.convert(locked(), Idempotency_Key="locked")
    before = gateway.health()["converted"]
    assert error_of(gateway.convert(locked(), Idempotency_Key="locked")) == error_of(first)
    assert gateway.health()["converted"] == before


@pytest.mark.parametrize("change", ["body", "mapping"])
def test_a_key_cannot_be_used_for_something_else(gateway, change):
    key = f"taken-{change}"
    assert gateway.convert(HELLO, Idempotency_Key=key).status_code == 200
    other = HELLO + b"\n" if change == "body" else HELLO
    mapping = "layout" if change == "mapping" else "text"
    answer = gateway.convert(other, mapping, Idempotency_Key=key)
    assert error_of(answer) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize("key", ["", "a b", "k" * 256, "\u00e9"])
def test_a_key_must_be_visible_ascii_of_at_most_255(gateway, key):
    answer = gateway.client.post(
        "/convert?mapping=text", content=HELLO, headers={b"Idempotency-Key": key.encode()}
    )
    assert error_of(answer) == (400, "VALIDATION_ERROR")


def test_twenty_requests_with_one_key_at_once_are_one_conversion(gateway):
    body = long_document(8)
    before = gateway.health()["converted"]
    with ThreadPoolExecutor(20) as threads:
        asked = [threads.submit(gateway.convert, body, Idempotency_Key="crowd") for _ in range(20)]
        answers = [one.result() for one in asked]
    assert {answer.status_code for answer in answers} == {200}
    assert len({hashlib.sha256(answer.content).digest() for answer in answers}) == 1
    assert gateway.health()["converted"] == before + 1


@contextlib.contextmanager
def asking(gateway, body, *lines):
    """Ask for a conversion, wait until its child is busy, and hang up at the end of the block."""
    request = head(f"Content-Length: {len(body)}", *lines) + body
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as connection:
        connection.sendall(request)
        while gateway.health()["idle"] > 0:
            pass
        yield


@pytest.mark.parametrize("lines", [[], ["Idempotency-Key: gone"]])
def test_a_conversion_whose_caller_left_frees_its_child(start_gateway, lines):
    one = start_gateway({"children": 1})
    body = long_document(600)
    with asking(one, body, *lines):
        (child,) = one.children()
    left = time.monotonic()
    # Far less than the file takes; on a quiet machine it is a few hundredths of a second.
    while child in one.children():
        assert time.monotonic() < left + 5
    # A key that was still in use would be refused with another file.
    assert one.convert(HELLO, Idempotency_Key="gone").status_code == 200
    assert one.health()["requests"] == 0


def test_a_conversion_goes_on_while_another_caller_waits_for_it(start_gateway):
    one = start_gateway({"children": 1})
    body = long_document(40)
    with ThreadPoolExecutor(1) as threads:
        with asking(one, body, "Idempotency-Key: shared"):
            other = threads.submit(one.convert, body, Idempotency_Key="shared")
            while one.health()["requests"] < 2:
                pass
        assert other.result().status_code == 200
    assert one.health()["converted"] == 1


# -- load ------------------------------------------------------------------------------------------


def test_many_at_once_all_get_their_own_answer(gateway):
    bodies = [document([Text(72, 700, f"number {number}")]) for number in range(40)]
    with ThreadPoolExecutor(40) as threads:
        answers = list(threads.map(gateway.convert, bodies))
    for number, answer in enumerate(answers):
        assert answer.status_code == 200
        assert f"<p>number {number}</p>" in answer.text


def test_an_overloaded_gateway_sends_a_retry_after(start_gateway):
    small = start_gateway({"children": 1, "most_requests": 2})
    body, gate, answers = long_document(30), threading.Barrier(6), []

    def ask():
        gate.wait()
        answers.append(small.convert(body, "layout"))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200, 200, 429, 429, 429, 429]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert {error_of(answer) for answer in refused} == {(429, "RATE_LIMITED")}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert small.convert(HELLO).status_code == 200
