"""What the child process does with a file, called in this process."""

import io
import json
import os
import re
import zipfile

import pytest
from tests.apps.conversion.pdf_writer import Text, document
from tests.apps.ingestion.extraction.test_extractor import PAGE, bomb, word_document

from holdfast_ingestion.extraction import child
from holdfast_ingestion.extraction.readers import Unreadable, read
from holdfast_ingestion.formats import Format


def test_html_is_reduced_to_its_main_text():
    found = read(PAGE, Format.HTML)

    assert found.title == "Otters & rivers"
    assert "swim in cold rivers" in found.text
    assert "Copyright" not in found.text


@pytest.mark.parametrize(
    "page, text",
    [
        (b"<p>Only a fragment.</p>", "Only a fragment."),
        (b"<html><body><a href=x>One</a> <a>Two</a><style>p{}</style></body></html>", "One Two"),
        (b"", ""),
        (b"<!-- nothing -->", ""),
    ],
)
def test_a_page_without_main_text_is_read_as_it_is(page, text):
    assert read(page, Format.HTML).text == text


def test_word_documents_and_pdfs_have_titles_and_paragraphs():
    found = read(word_document(), Format.DOCX)
    assert (found.title, found.text) == ("A Word document", "First paragraph.\n\nleft | right")
    pdf = document([Text(72, 700, "One."), Text(72, 600, "Two.")])
    assert read(pdf, Format.PDF).text == "One.\n\nTwo."


def test_a_word_document_without_properties_has_no_title():
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(word_document())) as given,
        zipfile.ZipFile(file, "w") as bare,
    ):
        for name in given.namelist():
            data = given.read(name)
            if name == "_rels/.rels":
                data = re.sub(rb"<Relationship [^>]*core-properties[^>]*/>", b"", data)
            if name != "docProps/core.xml":
                bare.writestr(name, data)
    found = read(file.getvalue(), Format.DOCX)

    assert (found.title, found.text) == (None, "First paragraph.\n\nleft | right")


@pytest.mark.parametrize(
    "data, chosen, code",
    [
        (b"PK\x03\x04 damaged", Format.DOCX, "PARSE_ERROR"),
        (bomb(), Format.DOCX, "TOO_LARGE"),
        (b"%PDF-1.4 damaged", Format.PDF, "PARSE_ERROR"),
    ],
)
def test_what_is_damaged_is_refused_with_a_code_and_a_line(data, chosen, code):
    with pytest.raises(Unreadable) as refused:
        read(data, chosen)
    assert refused.value.code == code
    assert str(refused.value).endswith(".")


def answer(data, chosen=Format.HTML, most=1000):
    """Return what the child would answer about `data`."""
    descriptor = os.memfd_create("document")
    try:
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return json.loads(child._answer(str(chosen), [descriptor], most))
    finally:
        os.close(descriptor)


def test_the_child_answers_with_the_text_or_with_a_reason():
    assert answer(b"<p>Fine.</p>") == {"code": None, "title": None, "text": "Fine."}
    too_long = answer(b"<p>Too long.</p>" * 1000, most=1000)
    assert too_long["code"] == "TOO_LARGE"
    assert "1,000 characters" in too_long["message"]
    assert answer(b"junk", Format.DOCX)["code"] == "PARSE_ERROR"


@pytest.mark.parametrize(
    "error, code",
    [(MemoryError, "MEMORY_ERROR"), (RecursionError, "PARSE_ERROR"), (IndexError, "PARSE_ERROR")],
)
def test_whatever_a_reader_raises_is_an_answer(monkeypatch, error, code):
    def broken(*_):
        raise error("a bug")

    monkeypatch.setattr(child, "read", broken)
    assert answer(b"<p>x</p>")["code"] == code


def test_all_is_loaded_before_the_process_is_confined():
    assert callable(child.load({"most_characters": 10}))
