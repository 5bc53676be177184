"""The service over HTTP, with real processes and the real gateway."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from tests.apps.conversion.service import Service, pdf

from holdfast_conversion.error_codes import line_of

LIMIT = 300_000


@pytest.fixture(scope="module")
def service(tmp_path_factory, new_database):
    folder = tmp_path_factory.mktemp("service")
    with Service(folder, MAX_UPLOAD_BYTES=str(LIMIT), **new_database()) as service:
        yield service


@pytest.fixture
def client(service):
    """A browser for one test."""
    return service.browser()


def code_of(answer):
    body = answer.json()
    assert set(body["error"]) == {"code", "message"}
    assert len(body["error"]["message"]) < 200
    return answer.status_code, body["error"]["code"]


def left_behind(service):
    """Return the number of stored uploads; fail if a draft remains."""
    service.until(lambda: service.files(".drafts") == [])
    return len(service.files("uploads"))


# -- the happy path --------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", ["layout", "text", "metadata", None])
def test_a_pdf_becomes_xml(service, client, mapping):
    answer = service.upload(pdf("Hold fast"), mapping, "my report.PDF", client)

    assert answer.status_code == 201
    job = answer.json()["job"]
    assert "deduplicated" not in answer.json()
    # The answer shows the current job: an idle worker may have claimed it already.
    assert job["status"] in {"queued", "processing", "complete"}
    assert job["filename"] == "my report.PDF"
    assert job["mapping"] == (mapping or "layout")
    assert answer.headers["location"] == f"/api/jobs/{job['id']}"
    job = service.wait(job["id"], client=client)
    assert (job["status"], job["attemptCount"], job["canDownload"]) == ("complete", 1, True)
    got = client.get(f"/api/jobs/{job['id']}/download")
    assert got.headers["content-type"] == "application/xml"
    assert 'filename="my report.xml"' in got.headers["content-disposition"]
    words = " ".join(ET.fromstring(got.content).itertext()).split()
    assert mapping == "metadata" or words == ["Hold", "fast"]


def test_the_same_file_again_finds_the_first_job(service, client):
    content = pdf("twice")
    first = service.upload(content, client=client).json()["job"]["id"]
    during = service.upload(content, filename="other name.pdf", client=client)
    service.wait(first, client=client)
    after = service.upload(content, client=client)

    for answer in (during, after):
        assert answer.status_code == 200
        assert answer.json()["deduplicated"] is True
        assert answer.json()["job"]["id"] == first
    another = service.upload(content, "layout", client=client)
    assert another.status_code == 201


def test_two_hundred_uploads_of_the_same_bytes_at_once_are_one_job(service, client):
    client.get("/api/jobs")
    content = pdf("at once")
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: service.upload(content, client=client), range(200)))

    assert sorted({answer.status_code for answer in answers}) == [200, 201]
    assert [answer.status_code for answer in answers].count(201) == 1
    (job_id,) = {answer.json()["job"]["id"] for answer in answers}
    assert service.wait(job_id, client=client)["attemptCount"] == 1
    mine = client.get("/api/jobs").json()["jobs"]
    assert len(mine) == 1
    assert [name for name in service.files("uploads") if name.startswith(job_id)]
    assert service.files(".drafts") == []


def test_two_sessions_at_once_have_two_jobs_and_neither_reaches_the_others(service):
    one, two = service.browser(), service.browser()
    for each in (one, two):
        each.get("/api/jobs")
    content = pdf("mine and yours")
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda who: service.upload(content, client=who), [one, two] * 100))

    (first,) = {answer.json()["job"]["id"] for answer in answers[::2]}
    (second,) = {answer.json()["job"]["id"] for answer in answers[1::2]}
    assert first != second
    assert [answer.status_code for answer in answers].count(201) == 2
    service.wait(first, client=one)
    before = service.job(first, one)
    for job_id in (first, "nosuchjob"):
        for method, path in (
            ("GET", ""), ("GET", "/events"), ("GET", "/download"), ("POST", "/retry"),
            ("POST", "/retry-now"), ("POST", "/cancel"),
        ):  # fmt: skip
            answer = two.request(method, f"/api/jobs/{job_id}{path}")
            assert code_of(answer) == (403, "FORBIDDEN")
            assert answer.json()["error"]["message"] == line_of("FORBIDDEN")
    assert service.job(first, one) == before
    assert [job["id"] for job in two.get("/api/jobs").json()["jobs"]] == [second]


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04" + b"x" * 5000, b"hello", b"<html>", b"\0" * 2000]
)
def test_a_file_that_is_not_a_pdf_is_refused_and_recorded(service, client, content):
    before = left_behind(service)
    answer = service.upload(content, client=client)

    assert code_of(answer) == (400, "NOT_PDF")
    job = client.get(f"/api/jobs/{answer.json()['job']['id']}").json()["job"]
    assert (job["status"], job["error"]["code"]) == ("failed", "NOT_PDF")
    assert (job["canRetry"], job["isDeadLetter"], job["filename"]) == (False, False, "a.pdf")
    assert code_of(client.post(f"/api/jobs/{job['id']}/retry")) == (404, "FILE_NOT_FOUND")
    assert left_behind(service) == before


def test_the_largest_file_is_taken_and_one_byte_more_is_not(service, client):
    start = pdf("large")
    exact = start + b"\n" * (LIMIT - len(start))
    before = left_behind(service)

    answer = service.upload(exact + b"\n", client=client)
    assert code_of(answer) == (413, "TOO_LARGE")
    assert answer.json()["job"]["error"]["code"] == "TOO_LARGE"
    assert left_behind(service) == before
    assert service.upload(exact, client=client).status_code == 201


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_mapping_that_does_not_exist_is_refused_and_recorded(service, client, order):
    before = left_behind(service)
    mapping = ("mapping", (None, b"br<ai>lle"))
    file = ("file", ("a.pdf", pdf("x"), "application/pdf"))
    parts = [mapping, file] if order == "first" else [file, mapping]

    answer = client.post("/api/upload", files=parts)

    assert code_of(answer) == (400, "INVALID_MAPPING")
    job = answer.json()["job"]
    assert (job["status"], job["mapping"]) == ("failed", "br<ai>lle")
    assert left_behind(service) == before


def test_a_file_that_the_gateway_refuses_fails_at_once(service, client):
    job_id = service.upload(b"%PDF-1.4\nnothing that is a PDF", client=client).json()["job"]["id"]

    job = service.wait(job_id, client=client)

    assert (job["status"], job["error"]["code"], job["attemptCount"]) == ("failed", "GW_4XX", 1)
    assert job["error"]["message"] == f"{line_of('GW_4XX')} This PDF is damaged and cannot be read."
    assert (job["canRetry"], job["isDeadLetter"]) == (True, True)
    events = client.get(f"/api/jobs/{job_id}/events").json()["events"]
    assert events[-1]["meta"]["gateway_http_status"] == 400
    retried = client.post(f"/api/jobs/{job_id}/retry")
    assert retried.status_code == 200
    assert retried.json()["job"]["manualRetryCount"] == 1
    service.wait(job_id, client=client)
    (service.folder / "data" / "files" / "uploads" / f"{job_id}.pdf").unlink()
    assert service.job(job_id, client)["canRetry"] is False
    assert code_of(client.post(f"/api/jobs/{job_id}/retry")) == (404, "FILE_NOT_FOUND")


@pytest.mark.parametrize(
    "sent, shown",
    [
        ('qu"ote.pdf', 'qu"ote.pdf'),
        ("new\nline.pdf", "new line.pdf"),
        ("../../etc/passwd.pdf", "passwd.pdf"),
        ("C:\\temp\\x.pdf", "x.pdf"),
        ("😀 émoji.pdf", "😀 émoji.pdf"),
        ("", "document.pdf"),
        ("...", "document.pdf"),
        ("\u202efdp.exe", "fdp.exe"),
    ],
)
def test_a_hostile_file_name_is_only_a_name(service, client, sent, shown):
    content = pdf(f"name {len(sent)} {len(shown)} {ascii(sent)[:9]}")
    answer = raw_upload(service, client, sent, content)

    assert answer[0] == 201, answer
    job = answer[1]["job"]
    assert job["filename"] == shown
    service.wait(job["id"], client=client)
    got = client.get(f"/api/jobs/{job['id']}/download")
    assert got.status_code == 200
    name = unquote(got.headers["content-disposition"].partition("UTF-8''")[2])
    assert name == shown.removesuffix(".pdf") + ".xml"


def test_a_file_name_of_5000_characters_is_cut(service, client):
    status, body = raw_upload(service, client, "x" * 5000 + ".pdf", pdf("long name"))

    assert status == 201
    assert len(body["job"]["filename"]) == 200
    assert body["job"]["filename"].endswith("….pdf")


def raw_upload(service, client, filename, content):
    """Upload with a file name as a browser would write it."""
    client.get("/api/jobs")
    escaped = filename.replace('"', "%22").replace("\n", "%0A")
    body = (
        b"--b\r\nContent-Disposition: form-data; name=\"mapping\"\r\n\r\ntext\r\n--b\r\n"
        + f'Content-Disposition: form-data; name="file"; filename="{escaped}"\r\n'.encode()
        + b"Content-Type: application/pdf\r\n\r\n" + content + b"\r\n--b--\r\n"
    )  # fmt: skip
    answer = client.post(
        "/api/upload", content=body, headers={"content-type": "multipart/form-data; boundary=b"}
    )
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    "kind, body",
    [
        ("application/pdf", b"%PDF-1.4"),
        ("", b""),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"garbage"),
        ("multipart/form-data; boundary=b", b"--b--\r\n"),
        ("multipart/form-data; boundary=" + "b" * 5000, b"--b--\r\n"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-1.4',
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="mapping"\r\n\r\ntext\r\n--b--\r\n',
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nx\r\n' * 30 + b"--b--\r\n",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n' + b"x" * 999 + b"\r\n--b--",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n%PDF-1.4\r\n' * 2
            + b"--b--\r\n",
        ),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X: y\r\n" * 5000 + b"\r\n"),
    ],
)
def test_a_body_that_is_not_a_form_is_refused_and_not_recorded(service, client, kind, body):
    before = left_behind(service)

    answer = client.post("/api/upload", content=body, headers={"content-type": kind})

    assert code_of(answer) == (400, "VALIDATION_ERROR")
    assert client.get("/api/jobs").json()["jobs"] == []
    assert left_behind(service) == before


# -- connections that misbehave --------------------------------------------------------------------

HEAD = (
    b"POST /api/upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    b"Content-Length: %d\r\n\r\n"
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
)


def connect(service):
    host, _, port = service.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def read_all(connection):
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
        _, found, body = answer.partition(b"\r\n\r\n")
        if found and body.endswith(b"}"):
            break
    return answer


def test_a_declared_giant_is_refused_without_reading_the_rest(service):
    with connect(service) as connection:
        connection.sendall(HEAD % 10**10 + b"%PDF-1.4")
        answer = read_all(connection)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"TOO_LARGE"' in answer


def test_an_undeclared_giant_is_cut_off_when_it_passes_the_limit(service):
    sent = 0
    with connect(service) as connection:
        head = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        start, _, form = head.partition(b"\r\n\r\n")
        connection.sendall(start + b"\r\n\r\n" + b"%x\r\n%b\r\n" % (len(form), form))
        piece = b"%PDF-" + b"x" * (64 * 1024 - 5)
        answer = b""
        connection.settimeout(0.05)
        while not answer and sent < 100 * LIMIT:
            try:
                connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                sent += len(piece)
                answer = connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
    assert b" 413 " in answer
    assert sent < 20 * LIMIT


def test_a_connection_that_breaks_leaves_nothing_behind(service):
    before = left_behind(service)
    for declared in (100_000, 50):
        with connect(service) as connection:
            connection.sendall(HEAD % declared + b"%PDF-1.4" + b"x" * 5000)
    service.until(lambda: left_behind(service) == before)
    assert service.client.get("/healthz").status_code == 200


def test_a_length_that_is_too_short_gets_a_clear_answer(service):
    content = pdf("short")
    body = HEAD.partition(b"\r\n\r\n")[2] + content + b"\r\n--b--\r\n"
    with connect(service) as connection:
        start = (HEAD % (len(body) - 30)).partition(b"\r\n\r\n")[0]
        connection.sendall(start + b"\r\n\r\n" + body)
        answer = read_all(connection)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"VALIDATION_ERROR" in answer


def test_a_length_that_is_too_long_gets_a_clear_answer_when_no_more_comes(service):
    before = left_behind(service)
    body = HEAD.partition(b"\r\n\r\n")[2] + pdf("long") + b"\r\n--b--\r\n"
    with connect(service) as connection:
        start = (HEAD % (len(body) + 30)).partition(b"\r\n\r\n")[0]
        connection.sendall(start + b"\r\n\r\n" + body)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    service.until(lambda: left_behind(service) == before)


def test_a_client_that_is_slow_and_steady_is_served(service):
    body = HEAD.partition(b"\r\n\r\n")[2] + pdf("drop by drop") + b"\r\n--b--\r\n"
    with connect(service) as connection:
        start = (HEAD % len(body)).partition(b"\r\n\r\n")[0]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(start + b"\r\n\r\n")
        for at in range(0, len(body), 10):
            connection.sendall(body[at : at + 10])
            time.sleep(0.01)
        answer = read_all(connection)

    assert answer.startswith(b"HTTP/1.1 201 ")


def test_a_job_says_how_large_its_result_is_and_until_when_it_is_kept(service, client):
    job_id = service.upload(pdf("kept"), client=client).json()["job"]["id"]
    job = service.wait(job_id, client=client)

    got = client.get(f"/api/jobs/{job_id}/download")
    assert job["resultBytes"] == len(got.content)
    kept = datetime.fromisoformat(job["expiresAt"]) - datetime.fromisoformat(job["completedAt"])
    assert kept > timedelta()


def test_a_removed_job_leaves_no_files(service, client):
    job_id = service.upload(pdf("gone"), client=client).json()["job"]["id"]
    service.wait(job_id, client=client)
    assert list(service.folder.rglob(f"{job_id}*.xml"))

    assert client.delete(f"/api/jobs/{job_id}").status_code == 204

    assert list(service.folder.rglob(f"{job_id}*")) == []
    assert code_of(client.get(f"/api/jobs/{job_id}/download")) == (403, "FORBIDDEN")


# -- waiting, cancelling, downloading --------------------------------------------------------------


def test_a_held_job_waits_can_be_cancelled_and_has_no_download(service, client):
    admin = service.admin()
    assert admin.post("/api/downstreams/gateway/hold").status_code == 200
    try:
        job_id = service.upload(pdf("held"), client=client).json()["job"]["id"]
        job = service.job(job_id, client)
        assert (job["status"], job["held"], job["attemptCount"]) == ("queued", True, 0)
        assert code_of(client.get(f"/api/jobs/{job_id}/download")) == (409, "NOT_READY")
        assert code_of(client.post(f"/api/jobs/{job_id}/retry")) == (409, "INVALID_STATE")
        cancelled = client.post(f"/api/jobs/{job_id}/cancel").json()["job"]
        assert cancelled["status"] == "cancelled"
        again = service.upload(pdf("held"), client=client)
        assert again.status_code == 201
    finally:
        admin.post("/api/downstreams/gateway/reset")
    assert service.wait(again.json()["job"]["id"], client=client)["status"] == "complete"


def test_a_deleted_result_is_expired_and_a_new_upload_makes_another(service, client):
    content = pdf("gone")
    job_id = service.upload(content, client=client).json()["job"]["id"]
    service.wait(job_id, client=client)
    (service.folder / "data" / "files" / "results" / f"{job_id}.1.xml").unlink()

    assert service.job(job_id, client)["canDownload"] is False
    gone = client.get(f"/api/jobs/{job_id}/download")
    assert code_of(gone) == (404, "EXPIRED")
    assert gone.json()["error"]["message"] == line_of("EXPIRED")
    again = service.upload(content, client=client)
    assert again.status_code == 201
    second = again.json()["job"]["id"]
    assert second != job_id
    assert service.upload(content, client=client).json()["job"]["id"] == second
    assert service.wait(second, client=client)["status"] == "complete"


def test_the_stream_sends_the_events_of_an_upload_until_it_is_ready(service, client):
    client.get("/api/jobs")
    heard, ready = [], threading.Event()

    def listen():
        with client.stream("GET", "/api/events") as answer:
            for line in answer.iter_lines():
                ready.set()
                if line.startswith("data: "):
                    job = json.loads(line[6:]).get("job") or {}
                    heard.append(job.get("status"))
                    if heard[-1] == "complete":
                        return

    listener = threading.Thread(target=listen)
    listener.start()
    assert ready.wait(10)
    service.upload(pdf("live"), client=client)
    listener.join(20)
    assert heard[-1] == "complete"


def test_the_admin_link_works_once(service):
    client = service.browser()

    assert client.get(service.admin_link).status_code == 303
    assert client.get("/api/stats").status_code == 200
    assert service.browser().get(service.admin_link).status_code == 403


def test_the_service_is_ready(service):
    assert service.client.get("/readyz").json() == {"status": "ok", "missing": []}
