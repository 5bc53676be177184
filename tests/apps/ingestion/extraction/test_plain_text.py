"""Text is decoded by what it says of itself, and tidied."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_ingestion.extraction.plain_text import (
    decode,
    html_charset,
    markdown_title,
    normalised,
    one_line,
    tidy,
)


@pytest.mark.parametrize(
    "data, charset",
    [
        ("café".encode(), None),
        ("café".encode(), "utf-8"),
        ("café".encode(), "ascii"),
        (b"\xef\xbb\xbf" + "café".encode(), None),
        (b"\xef\xbb\xbf" + "café".encode(), "cp1252"),
        (b"\xef\xbb\xbf" + "café".encode(), "shift_jis"),
        ("café".encode("utf-16"), None),
        ("café".encode("utf-16"), "cp1252"),
        ("café".encode("cp1252"), None),
        ("café".encode("cp1252"), "ascii"),
        ("café".encode("iso8859-15"), "iso8859-15"),
        ("café".encode(), "no-such-charset"),
    ],
)
def test_text_is_decoded_whatever_its_character_set(data, charset):
    assert decode(data, charset) == "café"


@given(st.binary(max_size=200), st.sampled_from([None, "utf-8", "utf-16", "shift_jis"]))
def test_no_bytes_are_refused(data, charset):
    assert isinstance(decode(data, charset), str)


def test_a_page_may_declare_its_character_set():
    assert html_charset(b'<meta charset="ISO-8859-15">') == "iso8859-15"
    attributes = b'<meta http-equiv="content-type" content="text/html; charset=koi8-r">'
    assert html_charset(attributes) == "koi8-r"
    assert html_charset(b"<p>none</p>") is None
    assert html_charset(b"<meta charset=unicode_escape>") is None


@pytest.mark.parametrize("name", ["utf-16", "UTF-16LE", "utf-16be", "unicode"])
def test_a_page_that_declares_utf16_in_ascii_is_utf8(name):
    page = f'<meta charset="{name}"><p>café'.encode()
    assert decode(page, html_charset(page)).endswith("café")


def test_tidy_leaves_one_blank_one_empty_line_and_no_control_characters():
    assert tidy("\ufeffa\u00a0 b\r\nc\x00\x02\x03\n\n\n \n d \f e") == "a b\nc\n\nd\n\ne"
    assert tidy(" \n\t ") == ""


def test_titles_are_one_line():
    assert one_line(" a \n b ") == "a b"
    assert one_line("\x00 ") is None
    assert one_line(None) is None
    assert len(one_line("x" * 1000)) == 300
    assert markdown_title("text\n\n## The *title* ##\n\nmore") == "The *title*"
    assert markdown_title("no heading # here") is None


def test_a_long_hostile_heading_costs_no_more_than_reading_it():
    begin = process_time()
    assert markdown_title("# x" + " " * 1_000_000 + "x") == "x"
    assert markdown_title("# x" + "#" * 1_000_000 + "x") == "x"
    assert markdown_title("#" * 1_000_000) is None
    assert process_time() - begin < 5.0


def test_one_spelling_of_accents_ligatures_and_soft_hyphens():
    assert tidy("cafe\u0301 o\ufb03ce hy\u00adphen") == "caf\u00e9 office hyphen"
    assert one_line("Re\u0301sume\u0301.pdf") == "R\u00e9sum\u00e9.pdf"
    assert normalised("2\u00b2 \u2122 \u2460") == "2\u00b2 \u2122 \u2460"


def test_a_long_text_is_composed_in_parts_as_if_it_were_one():
    word = "Cre\u0300me bru\u0302le\u0301e, "
    assert tidy(word * 1000) == ("Cr\u00e8me br\u00fbl\u00e9e, " * 1000).strip()


def test_a_million_marks_cost_no_more_than_reading_them():
    begin = process_time()
    tidy("a" + "\u0315\u0300" * 500_000)
    assert process_time() - begin < 5.0
