"""Formats are told by content types, file names and first bytes."""

import pytest

from holdfast_ingestion.formats import Format, fits, format_of_filename, format_of_media_type


@pytest.mark.parametrize("chosen", Format)
def test_each_format_has_a_content_type_of_its_own(chosen):
    assert format_of_media_type(chosen.media_type) is chosen
    assert format_of_media_type(chosen.media_type.upper()) is chosen


@pytest.mark.parametrize(
    "name, chosen",
    [
        ("a.PDF", Format.PDF), ("b.docx", Format.DOCX), ("c.htm", Format.HTML),
        ("d.md", Format.MARKDOWN), ("e.tar.txt", Format.TEXT), ("f.exe", None), (".pdf", None),
        ("pdf", None), ("", None),
    ],
)  # fmt: skip
def test_a_files_name_says_its_format(name, chosen):
    assert format_of_filename(name) is chosen


def test_first_bytes_must_fit():
    assert fits(b"junk %PDF-1.7", Format.PDF)
    assert not fits(b"hello", Format.PDF)
    assert not fits(b"hello", Format.DOCX)
    assert fits(b"hello", Format.HTML)
    assert format_of_media_type("image/png") is None
