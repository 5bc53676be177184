"""Text as it may stand in XML: composed, without ligatures, without what XML forbids."""

import re
import unicodedata

_LIGATURES = {
    0xFB00: "ff",
    0xFB01: "fi",
    0xFB02: "fl",
    0xFB03: "ffi",
    0xFB04: "ffl",
    0xFB05: "st",
    0xFB06: "st",
}
# Accents as type of their own, with the mark that each is when it stands over a letter.
_ACCENTS = {
    "\xa8": "\u0308",
    "\xaf": "\u0304",
    "\xb4": "\u0301",
    "\xb8": "\u0327",
    "\u02c6": "\u0302",
    "\u02c7": "\u030c",
    "\u02d8": "\u0306",
    "\u02d9": "\u0307",
    "\u02da": "\u030a",
    "\u02db": "\u0328",
    "\u02dc": "\u0303",
    "\u02dd": "\u030b",
}
_MARKS = frozenset({"Mn", "Me"})
_DOTLESS = {"\u0131": "i", "\u0237": "j"}
# XML 1.0 allows tab, newline, return and these ranges; the two last of every plane are no
# characters at all and are left out as well.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]"
    "|["
    + "".join(chr(plane << 16 | low) for plane in range(1, 17) for low in (0xFFFE, 0xFFFF))
    + "]"
)


def clean(text: str) -> str:
    """Return `text` as it may stand in XML.

    Latin ligatures become their letters, so that words can be found; letters and their combining
    marks are composed (NFC). A lone surrogate becomes U+FFFD; what XML forbids is left out. The
    order of the characters is kept, whatever direction they are read in.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.translate(_LIGATURES)
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    return unicodedata.normalize("NFC", _FORBIDDEN.sub("", text))


def is_accent(letter: str) -> bool:
    """Say whether `letter` is a combining mark, or an accent that may be printed over a letter."""
    return letter > "\x7f" and (letter in _ACCENTS or unicodedata.category(letter) in _MARKS)


def accented(letter: str, accent: str) -> str:
    """Return `letter` under `accent`, as one character where Unicode has it."""
    mark = _ACCENTS.get(accent, accent)
    return unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)
