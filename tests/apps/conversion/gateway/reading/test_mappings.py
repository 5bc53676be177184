"""The three mappings, on small PDFs whose every word is known."""

import subprocess
import sys
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.apps.conversion.gateway_process import environment
from tests.apps.conversion.pdf_writer import Text, document, locked, paragraph

from holdfast_conversion.gateway.formats import Caps, Mapping, check_magic
from holdfast_conversion.gateway.reading.mappings import convert, iso_date
from holdfast_conversion.gateway.rejections import Reason, Rejection

LAYOUT, TEXT = "{urn:holdfast:layout:1}", "{urn:holdfast:text:1}"


def tree(pdf, mapping):
    """Convert, validate the XML against its schema, and return its root."""
    root = etree.fromstring(convert(pdf, mapping))
    schema_file = resources.files("holdfast_conversion.gateway") / "schemas" / f"{mapping}.rng"
    schema = etree.RelaxNG(etree.fromstring(schema_file.read_bytes()))
    schema.assertValid(root)
    return root


def paragraphs(pdf):
    return [p.text for p in tree(pdf, "text").iter(f"{TEXT}p")]


def words(pdf):
    return [word.text for word in tree(pdf, "layout").iter(f"{LAYOUT}word")]


def box(element):
    return tuple(float(element.get(side)) for side in ("x0", "y0", "x1", "y1"))


# -- layout ----------------------------------------------------------------------------------------


def test_a_word_has_the_position_that_the_page_shows():
    root = tree(document([Text(72, 700, "Hello there", 10)]), "layout")
    assert (root.get("pages"), root[0].get("width"), root[0].get("height")) == ("1", "612", "792")
    first, second = root.iter(f"{LAYOUT}word")
    x0, y0, x1, y1 = box(first)
    assert (first.text, second.text) == ("Hello", "there")
    assert x0 == pytest.approx(72, abs=0.1)
    assert x1 == pytest.approx(72 + 10 * 2.278, abs=0.2)  # Helvetica: 722 556 222 222 556
    assert y0 < 792 - 700 < y1
    assert 8 < y1 - y0 < 14
    assert box(second)[0] > x1


def test_blocks_contain_lines_and_lines_contain_words():
    root = tree(document(paragraph(72, 700, ["one two", "three four five"])), "layout")
    (block,) = root.iter(f"{LAYOUT}block")
    assert [[word.text for word in line] for line in block] == [
        ["one", "two"],
        ["three", "four", "five"],
    ]
    for line in block:
        for word in line:
            for outer in (line, block):
                assert box(outer)[0] <= box(word)[0]
                assert box(outer)[1] <= box(word)[1]
                assert box(outer)[2] >= box(word)[2]
                assert box(outer)[3] >= box(word)[3]


@pytest.mark.parametrize(
    "rotate, expected",
    [(0, (100, 92)), (90, (700, 100)), (180, (512, 700)), (270, (92, 512))],
)
def test_a_turned_page_is_measured_as_it_is_shown(rotate, expected):
    root = tree(document([Text(100, 700, "W", 10)], rotate=rotate), "layout")
    page = root[0]
    shown = ("792", "612") if rotate % 180 else ("612", "792")
    assert (page.get("width"), page.get("height")) == shown
    assert page.get("rotation") == str(rotate)
    (word,) = root.iter(f"{LAYOUT}word")
    x0, y0, x1, y1 = box(word)
    assert x0 - 3 <= expected[0] <= x1 + 3
    assert y0 - 3 <= expected[1] <= y1 + 3


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_turned_text_is_read_along_its_own_line(turn):
    assert words(document([Text(300, 400, "turned words here", turn=turn)])) == [
        "turned",
        "words",
        "here",
    ]


def test_text_outside_the_page_is_left_out():
    assert words(document([Text(72, 700, "in"), Text(900, 700, "out"), Text(72, -50, "o")])) == [
        "in"
    ]


def test_letters_placed_one_by_one_are_one_word():
    spaced = [Text(72 + 6.67 * at, 700, letter) for at, letter in enumerate("nnnn")]
    assert words(document(spaced)) == ["nnnn"]


def test_a_gap_separates_words_even_without_a_space():
    assert words(document([Text(72, 700, "left"), Text(100, 700, "right")])) == ["left", "right"]


def test_a_watermark_joins_no_line():
    texts = [Text(72, 700, "some words in a line"), Text(90, 650, "X", 90)]
    assert sorted(words(document(texts))) == ["X", "a", "in", "line", "some", "words"]


# -- text ------------------------------------------------------------------------------------------


def test_lines_become_paragraphs():
    page = [
        *paragraph(72, 700, ["The first paragraph goes on", "over two lines."]),
        *paragraph(72, 640, ["The second stands alone."]),
    ]
    assert paragraphs(document(page)) == [
        "The first paragraph goes on over two lines.",
        "The second stands alone.",
    ]


def test_an_indent_begins_a_paragraph():
    page = [
        *paragraph(72, 700, ["words that fill up the line", "and an end."]),
        *paragraph(92, 671.2, ["Indented beginning of it"]),
        *paragraph(72, 656.8, ["then words again at the left"]),
    ]
    assert paragraphs(document(page)) == [
        "words that fill up the line and an end.",
        "Indented beginning of it then words again at the left",
    ]


def test_a_hyphenated_word_is_joined():
    assert paragraphs(document(paragraph(72, 700, ["a conver-", "sion of Jean-", "Paul"]))) == [
        "a conversion of Jean- Paul"
    ]


def test_columns_are_read_one_after_the_other():
    left = paragraph(50, 700, [f"left {row} words go here" for row in range(12)])
    right = paragraph(320, 700, [f"right {row} words go here" for row in range(12)])
    mixed = [text for pair in zip(left, right, strict=True) for text in pair]
    title = [Text(50, 740, "A title that goes over both of the columns of the page here", 18)]
    told = " ".join(paragraphs(document(title + mixed)))
    assert told.index("title") < told.index("left 0") < told.index("left 11")
    assert told.index("left 11") < told.index("right 0") < told.index("right 11")


def test_the_order_on_the_page_counts_and_not_that_in_the_file():
    upper, lower = paragraph(72, 700, ["upper text"]), paragraph(72, 300, ["lower text"])
    assert paragraphs(document(lower + upper)) == ["upper text", "lower text"]


def test_pages_keep_their_order_and_an_empty_one_its_place():
    root = tree(document([Text(72, 700, "one")], [], [Text(72, 700, "three")]), "text")
    assert [[p.text for p in page] for page in root] == [["one"], [], ["three"]]
    assert [page.get("number") for page in root] == ["1", "2", "3"]


# -- characters ------------------------------------------------------------------------------------


def test_markup_in_the_text_is_text():
    assert words(document([Text(72, 700, "<a&b>\"c'")])) == ["<a&b>\"c'"]


@pytest.mark.parametrize(
    "meaning, told",
    [
        ("\ufb03", "ffi"),
        ("\ufb01", "fi"),
        ("e\u0301", "\u00e9"),
        ("\U0001f600", "\U0001f600"),
        ("\u05d0", "\u05d0"),
        ("\u4e2d", "\u4e2d"),
    ],
)
def test_letters_follow_the_fonts_character_map(meaning, told):
    pdf = document([Text(72, 700, "aXa")], to_unicode={ord("X"): meaning, ord("a"): "a"})
    assert words(pdf) == [f"a{told}a"]


@pytest.mark.parametrize("code", [0x01, 0x08, 0x0B, 0x1F, 0x7F, 0xFFFF, 0xFDD0])
def test_what_xml_forbids_never_gets_into_it(code):
    pdf = document([Text(72, 700, "aXb")], to_unicode={88: chr(code), 97: "a", 98: "b"})
    text = convert(pdf, "text").decode()
    assert chr(code) not in text
    assert "a" in etree.fromstring(text.encode())[0][0].text


def test_half_a_surrogate_pair_is_replaced():
    pdf = document([Text(72, 700, "aX")], to_unicode={88: "\udc00", 97: "a"})
    assert etree.fromstring(convert(pdf, "text"))[0][0].text == "a\N{REPLACEMENT CHARACTER}"


def test_an_accent_printed_over_a_letter_belongs_to_it():
    # As in TeX: the accent first, then the letter at the same position.
    texts = [
        Text(72, 700, "r"),
        Text(76.3, 700, "\xb4"),
        Text(75.9, 700, "a"),
        Text(82.6, 700, "k"),
    ]
    assert words(document(texts)) == ["r\u00e1k"]


def test_lines_of_hebrew_are_read_from_the_right():
    table = {ord("a"): "\u05d0", ord("b"): "\u05d1"}
    pdf = document([Text(72, 700, "aaa"), Text(200, 700, "bbb")], to_unicode=table)
    pdf_near = document([Text(72, 700, "aaa"), Text(95, 700, "bbb")], to_unicode=table)
    assert sorted(words(pdf)) == ["\u05d0" * 3, "\u05d1" * 3]
    assert words(pdf_near) == ["\u05d1" * 3, "\u05d0" * 3]


# -- metadata --------------------------------------------------------------------------------------


def test_metadata_is_that_of_the_document():
    pdf = document(
        [Text(72, 700, "x")],
        [],
        info={
            "Title": "Caf\u00e9 & \U0001f600\nin two lines",
            "Author": "A",
            "CreationDate": "D:20240229120000+02'00'",
            "ModDate": "yesterday",
        },
        bookmarks=["First", "S\u00e9cond <2>"],
    )
    root = tree(pdf, "metadata")
    fields = {field.get("name"): field for field in root[0]}
    assert fields["Title"].text == "Caf\u00e9 & \U0001f600 in two lines"
    assert fields["CreationDate"].get("iso") == "2024-02-29T10:00:00Z"
    assert fields["ModDate"].get("iso") is None
    assert [(entry.text, entry.get("page"), entry.get("level")) for entry in root[1]] == [
        ("First", "1", "1"),
        ("S\u00e9cond <2>", "1", "1"),
    ]
    assert [page.get("number") for page in root[2]] == ["1", "2"]
    assert dict(root.attrib) == {
        "pages": "2",
        "tagged": "false",
        "encrypted": "false",
        "version": "1.7",
    }


def test_a_document_without_metadata_has_empty_metadata():
    root = tree(document([]), "metadata")
    assert [len(part) for part in root] == [0, 0, 1]


def test_half_a_surrogate_pair_in_a_title_or_bookmark_is_replaced():
    root = tree(document([], info={"Title": "a\udc00"}, bookmarks=["\ud800b"]), "metadata")
    assert root[0][0].text == "a\N{REPLACEMENT CHARACTER}"
    assert root[1][0].text == "\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    "value, iso",
    [
        ("D:20240229", "2024-02-29T00:00:00Z"),
        ("D:2024", "2024-01-01T00:00:00Z"),
        ("20240101120000Z", "2024-01-01T12:00:00Z"),
        ("D:20240101120000-05'30", "2024-01-01T17:30:00Z"),
        ("D:20230229", None),
        ("D:20241301", None),
        ("D:00000101", None),
        ("D:20240101120000+99'00'", None),
        ("", None),
        ("Tuesday", None),
    ],
)
def test_dates_are_understood_or_left(value, iso):
    assert iso_date(value) == iso


# -- the whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", Mapping)
def test_the_same_bytes_give_the_same_xml_in_every_process(mapping, tmp_path):
    page = [*paragraph(50, 700, ["some text", "more"]), *paragraph(320, 700, ["and", "so on"])]
    pdf = document(page, page, info={"Title": "T"}, bookmarks=["B"])
    path = tmp_path / "same.pdf"
    path.write_bytes(pdf)
    code = (
        "import sys, pathlib; from holdfast_conversion.gateway.reading.mappings import convert; "
        "sys.stdout.buffer.write(convert(pathlib.Path(sys.argv[1]), sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(path), mapping]
    seeded = {**environment(), "PYTHONHASHSEED": "5"}
    there = subprocess.run(command, env=seeded, capture_output=True, check=True).stdout
    assert convert(path, mapping) == convert(pdf, mapping) == there


@pytest.mark.parametrize(
    "pdf, reason",
    [
        (b"", Reason.EMPTY),
        (b"GIF89a", Reason.NOT_PDF),
        (b"%PDF-1.7", Reason.DAMAGED),
        (locked(), Reason.ENCRYPTED),
    ],
)
def test_an_unconvertible_pdf_is_refused(pdf, reason):
    with pytest.raises(Rejection) as refused:
        convert(pdf, "text")
    assert refused.value.reason is reason


def test_caps_are_kept():
    pdf = document([Text(72, 700, "x")], [Text(72, 700, "x")])
    with pytest.raises(Rejection) as refused:
        convert(pdf, "text", Caps(pages=1))
    assert refused.value.reason is Reason.TOO_MANY_PAGES
    size = len(convert(pdf, "text"))
    assert len(convert(pdf, "text", Caps(output_bytes=size))) == size
    with pytest.raises(Rejection) as refused:
        convert(pdf, "text", Caps(output_bytes=size - 1))
    assert refused.value.reason is Reason.OUTPUT_TOO_LARGE


def test_there_are_three_mappings():
    with pytest.raises(ValueError, match="xslt"):
        convert(document([]), "xslt")


def test_the_header_of_a_pdf_may_be_anywhere_in_the_first_kibibyte():
    check_magic(b"x" * 1019 + b"%PDF-")
    with pytest.raises(Rejection):
        check_magic(b"x" * 1020 + b"%PDF-")


@settings(max_examples=40)
@given(st.lists(st.text(alphabet=st.characters(codec="cp1252"), max_size=30), max_size=8))
def test_the_xml_of_any_page_is_well_formed_and_valid(lines):
    pdf = document(paragraph(20, 780, [line.replace("\r", " ") for line in lines]))
    for mapping in Mapping:
        tree(pdf, mapping)
