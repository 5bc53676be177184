"""The form of the documents' page, sent as a browser without scripts does."""

import pytest
from tests.apps.ingestion.document_server import DocumentServer

from holdfast_ingestion.pages.intake_form import MOST_ADDRESSES, labels_of

URLS = "https://a.example/one\n\n  https://b.example/two  \r\n"


def listed(server):
    return server.client.get("/v3/documents").json()["documents"]


def add(submit, server, fields, files=None, status=303):
    files = files if files is not None else {"file": ("", b"", "application/octet-stream")}
    return submit(server, "/documents", fields, files, status)


def test_several_addresses_are_taken_in_one_per_line(idle_server, submit, look):
    fields = {"kind": "url", "urls": URLS, "metadata": "team: blue\nsee: https://x"}

    path = add(submit, idle_server, fields)

    assert path == "/documents?note=added"
    assert "Added." in look(idle_server, path).text("//*[@id='toast']")
    found = listed(idle_server)
    assert {each["url"] for each in found} == {"https://b.example/two", "https://a.example/one"}
    assert found[0]["metadata"] == {"team": "blue", "see": "https://x"}


def test_the_same_again_is_said_to_be_there(idle_server, submit):
    add(submit, idle_server, {"kind": "url", "urls": URLS})

    assert add(submit, idle_server, {"kind": "url", "urls": URLS}) == "/documents?note=there"
    more = URLS + "https://c.example"
    assert add(submit, idle_server, {"kind": "url", "urls": more}) == "/documents?note=some-added"
    assert len(listed(idle_server)) == 3


def test_a_text_has_a_title_and_a_type(idle_server, submit):
    fields = {
        "kind": "text",
        "title": "Mine",
        "type": "markdown",
        "content": "# A\n\n" + "b" * 99_000,
    }

    add(submit, idle_server, {**fields, "urls": "ignored"})

    (document,) = listed(idle_server)
    assert (document["title"], document["type"]) == ("Mine", "markdown")


def test_a_file_is_uploaded(idle_server, submit):
    add(submit, idle_server, {"kind": "file"}, {"file": ("notes.txt", b"some words", "text/plain")})

    (document,) = listed(idle_server)
    assert (document["filename"], document["type"]) == ("notes.txt", "text")


@pytest.mark.parametrize(
    ("fields", "status", "line"),
    [
        ({"kind": "url", "urls": " \n "}, 422, "Type an address"),
        ({"kind": "url", "urls": "https://a.example\nftp://b.example"}, 400, "Line 2: "),
        ({"kind": "url", "urls": "http://10.255.255.1/"}, 422, "not on the public internet"),
        ({"kind": "url", "urls": "https://a.example/x\n" * (MOST_ADDRESSES + 1)}, 422, "At most"),
        ({"kind": "url", "urls": "https://a.example", "metadata": "blue"}, 422, "key: value"),
        ({"kind": "text", "content": "  "}, 400, "The content is empty."),
        ({"kind": "text", "content": "a", "type": "gif"}, 415, "cannot be 'gif'"),
        ({"kind": "file"}, 422, "Choose a file."),
        ({}, 422, "Type an address"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words_and_nothing_is_taken_in(
    idle_server, submit, fields, status, line
):
    page = add(submit, idle_server, fields, status=status)

    assert line in page.text("//main")
    assert "holdfast:say" in page.answer.headers["hx-trigger"]
    assert listed(idle_server) == []


def test_a_file_of_an_unknown_type_is_refused(idle_server, submit):
    file = {"file": ("a.gif", b"GIF89a", "image/gif")}
    page = add(submit, idle_server, {"kind": "file"}, file, 415)

    assert "Only PDF, DOCX, HTML, Markdown and text files can be read." in page.text("//main")


def test_a_form_beyond_the_limit_is_refused(tmp_path, submit):

    with DocumentServer(tmp_path, working=False, max_bytes=1000) as server:
        add(submit, server, {"kind": "text", "content": "a" * 400_000}, status=413)
        add(submit, server, {"kind": "text", "content": "a" * 1001}, status=413)


def test_what_is_no_form_is_refused(idle_server):
    answer = idle_server.client.post("/documents", json={"urls": "https://a.example"})

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"


def test_labels_are_lines_of_key_and_value():
    assert labels_of("a: b\n\n c :d:e \n") == {"a": "b", "c": "d:e"}
    assert labels_of("") == {}
