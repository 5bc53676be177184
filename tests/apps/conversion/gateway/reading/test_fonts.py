"""Fonts: advances, glyphs without a character, marks, directions."""

import pytest
from tests.apps.conversion.gateway.reading.test_mappings import paragraphs, words
from tests.apps.conversion.pdf_writer import Text, assemble, document, paragraph, stream

NARROW = {letter: chr(letter) for letter in range(32, 127)}
"""A font whose every glyph moves the pen by half its size, however wide its ink is."""


def pictures(*lines: bytes, name: bytes = b"") -> bytes:
    """Return a page with a bitmap font of old TeX: glyph codes without characters."""
    glyph = stream(b"500 0 0 0 450 700 d1 0 0 450 700 re f")
    codes = sorted({*b"".join(lines)} - {32})
    procedures = b" ".join(b"/a%d 5 0 R" % code for code in codes)
    differences = b" ".join(b"%d/a%d" % (code, code) for code in codes)
    content = b"".join(
        b"BT /F 10 Tf 72 %d Td <%s> Tj ET\n" % (700 - 12 * row, line.hex().encode())
        for row, line in enumerate(lines)
    )
    return assemble(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
            b"/Resources<</Font<</F 6 0 R>>>>>>",
            stream(content),
            glyph,
            b"<</Type/Font/Subtype/Type3/FontBBox[0 0 500 700]/FontMatrix[.001 0 0 .001 0 0]%s"
            b"/FirstChar 0/LastChar 255/Widths[%s]/CharProcs<<%s>>/Resources<<>>"
            b"/Encoding<</Type/Encoding/Differences[%s]>>>>"
            % (name, b"500 " * 256, procedures, differences),
        ]
    )


@pytest.mark.parametrize(
    "codes, text",
    [
        (b"di\x0berent", "different"),
        (b"\x0cnd", "find"),
        (b"a\x0dow", "aflow"),
        (b"e\x1bect", "effect"),
        (b"\x1enity", "ffinity"),
        (b"\x10quoted\x11", "\u201cquoted\u201d"),
        (b"\x88", "\u2022"),
    ],
)
def test_ligatures_and_signs_of_a_font_without_names_are_read_as_tex_meant_them(codes, text):
    assert words(pictures(codes)) == [text]


def test_a_code_that_may_be_a_symbol_of_a_formula_is_not_a_ligature():
    assert words(pictures(b"X\x0bY")) == ["XY"]


def test_an_unknown_glyph_does_not_split_a_word():
    assert words(pictures(b"w\x01hole")) == ["whole"]


def test_ink_that_reaches_beyond_its_letter_hides_no_space():
    # W moves the pen by 5 points here, and its ink is more than 9 wide.
    texts = [Text(72, 700, "W", 10), Text(79, 700, "a", 10)]

    assert words(document(texts, to_unicode=NARROW)) == ["W", "a"]


def test_ink_that_reaches_beyond_its_letter_does_not_split_a_word():
    assert words(document([Text(72, 700, "WWaW", 10)], to_unicode=NARROW)) == ["WWaW"]


def test_a_glyph_for_several_letters_is_as_wide_as_all_of_them():
    table = {**NARROW, ord("#"): "ffi"}

    assert words(document([Text(72, 700, "o#ce", 10)], to_unicode=table)) == ["office"]


def test_a_hyphenated_word_continues_on_an_indented_line():
    page = [*paragraph(72, 700, ["* a note that was in-"]), *paragraph(92, 685.6, ["troduced"])]

    assert paragraphs(document(page)) == ["* a note that was introduced"]


def test_a_mark_of_a_script_without_combining_classes_stays_with_its_letter():
    table = {ord("k"): "\u0915", ord("e"): "\u0947", ord("t"): "\u0924"}
    texts = [Text(72, 700, "k", 10), Text(72.5, 704, "e", 10), Text(77, 700, "t", 10)]

    assert words(document(texts, to_unicode=table)) == ["\u0915\u0947\u0924"]
