"""Characters that XML permits."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from holdfast_conversion.gateway.reading.characters import accented, clean, is_accent
from holdfast_conversion.gateway.reading.xml import escaped, points


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_cleaned_text_is_valid_in_xml(text):
    cleaned = clean(text)
    root = etree.fromstring(f'<a b="{escaped(cleaned)}">{escaped(cleaned)}</a>'.encode())
    assert (root.text or "") == cleaned.replace("\r\n", "\n").replace("\r", "\n")
    assert clean(cleaned) == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)


@pytest.mark.parametrize(
    "text, cleaned",
    [
        ("plain", "plain"),
        ("a\x00b\x0bc\x7f", "abc"),
        ("\ufb02ow", "flow"),
        ("e\u0301", "\u00e9"),
        ("\ud83d", "\ufffd"),
        ("\ufffe\uffff\U0001ffff", ""),
        ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
    ],
)
def test_clean(text, cleaned):
    assert clean(text) == cleaned


def test_an_accent_is_joined_to_its_letter():
    assert accented("a", "\xb4") == "\u00e1"
    assert accented("\u0131", "\xa8") == "\u00ef"
    assert accented("q", "\u0303") == "q\u0303"
    assert is_accent("\u0301")
    assert not is_accent("e")
    assert not is_accent("^")


@pytest.mark.parametrize(
    "value, text",
    [(72.0, "72"), (0.1, "0.1"), (-0.001, "0"), (1234567.891, "1234567.89"), (-3.5, "-3.5")],
)
def test_points(value, text):
    assert points(value) == text
