"""Plain text: decode it, and leave out what no one can read or search for."""

import codecs
import re
import unicodedata

from holdfast.fetch import sniff_charset

_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.IGNORECASE
)
_HEAD = 4096
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff\ud800-\udfff]")
_SOFT_HYPHEN = "\u00ad"
_LIGATURES = re.compile("[\ufb00-\ufb4f]")
"""Latin, Armenian and Hebrew ones: ways to print letters, such as the ﬁ of many PDFs."""
_NOT_ASCII = re.compile("[\x00-\x7f]?[^\x00-\x7f]{1,256}")
"""What can be composed by itself: no ASCII character joins the one before it. A part has a most
length because Python sorts a run of combining marks in time that grows with its square."""
_BLANKS = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r" ?\n ?")
_GAPS = re.compile(r"\n{3,}")
_HEADING = re.compile(r"^ {0,3}#{1,6} +(\S.{0,299})", re.MULTILINE)
_LONGEST_TITLE = 300


def decode(data: bytes, charset: str | None = None) -> str:
    """Return `data` as text: by a byte order mark, by `charset`, as UTF-8, else as Windows-1252.

    Bytes that do not fit become U+FFFD; nothing is refused.
    """
    if data.startswith(codecs.BOM_UTF8):
        return data.decode("utf-8-sig", "replace")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if charset is not None and charset not in {"ascii", "utf-8"}:
        try:
            return data.decode(charset, "replace")
        except (LookupError, ValueError):
            pass
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8" if charset == "utf-8" else "cp1252", "replace")


def html_charset(data: bytes) -> str | None:
    """Return the character set that an HTML page declares in its first bytes."""
    found = _META_CHARSET.search(data[:_HEAD])
    if found is None:
        return None
    declared = sniff_charset(f"text/html; charset={found[1].decode('ascii')}", b"")
    # The declaration was read byte by byte, so UTF-16 is wrong. The HTML standard takes UTF-8.
    return "utf-8" if declared is not None and declared.startswith("utf-16") else declared


def tidy(text: str) -> str:
    """Return `text` without control characters, with single blanks and at most one empty line.

    No control character remains, so that highlights can be marked with them. The spelling is that
    of `normalised`.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n")
    text = _BLANKS.sub(" ", normalised(_UNREADABLE.sub("", text)))
    return _GAPS.sub("\n\n", _LINE_ENDS.sub("\n", text)).strip()


def normalised(text: str) -> str:
    """Return `text` in the spelling that words are compared in.

    Accents are composed (NFC), ligatures are their letters, soft hyphens are left out. Signs with a
    meaning of their own, such as ² and ™, stay as they are.
    """
    text = text.replace(_SOFT_HYPHEN, "")
    text = _LIGATURES.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    if unicodedata.is_normalized("NFC", text):
        return text
    return _NOT_ASCII.sub(lambda found: unicodedata.normalize("NFC", found[0]), text)


def one_line(text: str | None) -> str | None:
    """Return a title on one line of at most 300 characters; None where nothing is left."""
    return " ".join(_UNREADABLE.sub(" ", normalised(text or "")).split())[:_LONGEST_TITLE] or None


def markdown_title(text: str) -> str | None:
    """Return the first heading of a Markdown text."""
    found = _HEADING.search(text)
    return None if found is None else one_line(found[1].rstrip(" #"))


def too_long_line(most: int) -> str:
    """Return the refusal of a text with more than `most` characters."""
    return f"The text of this document has more than {most:,} characters, the limit."
