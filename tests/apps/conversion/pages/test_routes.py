"""The page's forms without JavaScript: an upload, and the sample."""

import errno

import pytest
from tests.apps.conversion.service import pdf
from tests.http.live_server import Serving
from tests.http.pages.page_reader import Looked

from holdfast_conversion.app import Conversion
from holdfast_conversion.service_settings import ConversionSettings

LIMIT = 100_000


@pytest.fixture
def serving(tmp_path):
    settings = ConversionSettings(
        files=tmp_path / "files", gateway_url="http://127.0.0.1:9", max_upload_bytes=LIMIT
    )
    # Other bodies than uploads are limited to a kilobyte.
    with Serving(tmp_path, served=Conversion(settings), body_bytes=1000) as serving:
        yield serving


def upload(serving, content, name="a.pdf", client=None, **fields):
    return (client or serving.client).post(
        "/upload", data={"mapping": "text", **fields}, files={"file": (name, content)}
    )


def names(serving):
    return [each.name for each in serving.served.files.list("uploads")]


def shown(serving, answer, client=None):
    assert answer.status_code == 303, answer.text
    page = Looked((client or serving.client).get(answer.headers["location"]))
    return page.text("//*[@id='toast']"), page.texts("//ul[@id='rows']/li")


def test_a_file_is_accepted_and_the_page_shows_its_row(serving):
    note, rows = shown(serving, upload(serving, pdf("by form") + b" " * 5000, "my file.pdf"))

    assert note.startswith("Uploaded.")
    assert len(rows) == 1
    assert "my file.pdf text ·" in rows[0]
    assert "Queued" in rows[0]
    assert len(names(serving)) == 1


def test_the_same_file_again_is_reported_as_existing(serving):
    upload(serving, pdf("again"))

    note, rows = shown(serving, upload(serving, pdf("again")))

    assert "the same file before" in note
    assert len(rows) == len(names(serving)) == 1


@pytest.mark.parametrize(
    "content, fields, note, line",
    [
        (b"no pdf", {}, "Only PDF files are supported.", "Only PDF files are supported."),
        (b"", {}, "Only PDF files are supported.", "The file is empty."),
        (
            b"%PDF-1.7 " + b"x" * LIMIT,
            {},
            "larger than the limit",
            "File exceeds 97.7 kB limit.",
        ),
        (
            pdf("x"),
            {"mapping": "<b>none</b>"},
            "mapping does not exist",
            "There is no such mapping; choose one of layout, text, metadata.",
        ),
    ],
)
def test_a_refused_file_is_a_row_with_the_reason(serving, content, fields, note, line):
    told, rows = shown(serving, upload(serving, content, **fields))

    assert note in told
    assert len(rows) == 1
    assert line in rows[0]
    assert "Failed" in rows[0]
    assert names(serving) == []


def test_a_body_that_is_not_a_form_is_refused_and_leaves_no_row(serving):
    answer = serving.client.post("/upload", content=b"x" * 5000)

    note, rows = shown(serving, answer)

    assert "not in the form that is needed" in note
    assert rows == []


def test_a_failing_disk_is_reported(serving, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "broken", "/a/secret/path")

    monkeypatch.setattr("holdfast.files.artifacts.Draft.write", broken)

    assert "could not be read or stored" in shown(serving, upload(serving, pdf("a")))[0]
    assert "could not be read or stored" in shown(serving, serving.client.post("/sample"))[0]
    assert names(serving) == []


def test_a_form_of_another_site_takes_nothing_in(serving):
    evil = {"origin": "http://evil"}

    assert upload(serving, pdf("a"), client=serving.browser(**evil)).status_code == 403
    assert serving.client.post("/sample", headers=evil).status_code == 403
    assert names(serving) == []


def test_a_file_belongs_to_its_uploader(serving):
    stranger = serving.browser()
    stranger.get("/")

    upload(serving, pdf("mine"), client=stranger)

    assert shown(serving, upload(serving, pdf("yours")))[1] != []
    assert "mine" not in serving.client.get("/").text
    assert len(Looked(stranger.get("/")).all("//ul[@id='rows']/li")) == 1


def test_each_sample_is_another_file(serving):
    for _ in range(2):
        note, rows = shown(serving, serving.client.post("/sample", data={"mapping": "metadata"}))

    assert note == "A sample is on its way."
    assert len(rows) == len(names(serving)) == 2
    assert all("sample-" in row and "metadata" in row for row in rows)


def test_a_script_gets_the_outcome_of_its_sample(serving, monkeypatch):
    json = {"accept": "application/json"}
    answer = serving.client.post("/sample", headers=json, data={"mapping": "text"})

    assert answer.status_code == 201
    assert answer.json()["job"]["mapping"] == "text"

    def broken(*_):
        raise OSError(errno.EIO, "broken", "/a/secret/path")

    monkeypatch.setattr("holdfast.files.artifacts.Draft.write", broken)
    answer = serving.client.post("/sample", headers=json)
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": {"code": "IO_ERROR", "message": "Temporary storage issue."}},
    )


def test_a_sample_of_no_mapping_is_of_the_first(serving):
    _, (row,) = shown(serving, serving.client.post("/sample", data={"mapping": "<x>"}))

    assert "layout" in row
