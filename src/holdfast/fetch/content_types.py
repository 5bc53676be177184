"""Find out what a body is: the server's word, unless the bytes contradict it.

A type that is specific and fits the bytes is believed: a Markdown file may begin with a tag, and
stays `text/markdown`. Bytes decide where the server says nothing of use, calls text binary, or
announces a PDF and sends a page about an error.
"""

import codecs
import re
from typing import Final

HEAD_BYTES = 1024
"""How much of a body is looked at; a PDF may begin so far behind its start."""

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
)
_UNKNOWN = "application/octet-stream"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_ON_ZIP = re.compile(r"application/(vnd\.|epub|java-archive)")
_HTML = re.compile(
    rb"<(!doctype html|html|head|body|title|meta|script|style|div|table|h1|p|a|b|br|iframe|font)"
    rb"[\s>/]|<!--",
    re.IGNORECASE,
)
_XHTML = re.compile(rb"<html[\s>]", re.IGNORECASE)
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TEXTUAL = re.compile(
    r"text/.+|application/((.+\+)?(xml|json)|javascript|ecmascript|yaml|x-yaml|toml|rtf|sql|x-ndjson)"
)
_VAGUE = frozenset({"", "*/*", _UNKNOWN, "binary/octet-stream"})
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+*-]{1,127}", re.ASCII)
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([a-z0-9._:-]{1,40})", re.IGNORECASE | re.ASCII)
_CODECS: Final = frozenset(
    (
        *("ascii", "utf-8", "utf-16", "utf-16-be", "utf-16-le", "koi8-r", "koi8-u", "mac-roman"),
        *("big5", "big5hkscs", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "iso2022_jp"),
        *("shift_jis", "cp866", "cp874", "cp932", "cp949", "tis-620"),
        *(f"cp{number}" for number in range(1250, 1259)),
        *(f"iso8859-{number}" for number in range(1, 17)),
    )
)
"""What is used on the web. Python has codecs beyond these that are slow on hostile input, or that
are no character sets at all."""


def sniff_type(header: str, head: bytes) -> str:
    """Return the content type in lower case, without parameters.

    Args:
        header: the value of `Content-Type`, "" where there was none.
        head: the first `HEAD_BYTES` of the body, or all of it.
    """
    declared = header.partition(";")[0].strip().lower()
    if declared in _VAGUE or not _TYPE.fullmatch(declared):
        declared = ""
    if b"%PDF-" in head and (head.startswith(b"%PDF-") or declared in ("", "application/pdf")):
        return "application/pdf"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return _zip_type(declared, head) if kind == "application/zip" else kind
    if _charset_by_bom(head) is None and _BINARY.search(head):
        return _UNKNOWN if _TEXTUAL.fullmatch(declared) else declared or _UNKNOWN
    if not head or _TEXTUAL.fullmatch(declared):
        return declared or _UNKNOWN
    return _text_type(head)


def sniff_charset(header: str, head: bytes) -> str | None:
    """Return the character set as Python names it: of a byte order mark, else of the header.

    None where there is neither, or one that the web does not use.
    """
    by_bom = _charset_by_bom(head)
    named = _CHARSET.search(header)
    if by_bom is not None or named is None:
        return by_bom
    try:
        name = codecs.lookup(named[1]).name
    except LookupError:
        return None
    return name if name in _CODECS else None


def _zip_type(declared: str, head: bytes) -> str:
    if _ON_ZIP.match(declared):
        return declared
    return _WORD if b"word/" in head else "application/zip"


def _text_type(head: bytes) -> str:
    for mark, _ in _BOMS:
        head = head.removeprefix(mark)
    head = head.lstrip()
    if head.startswith(b"<?xml"):
        return "application/xhtml+xml" if _XHTML.search(head) else "application/xml"
    return "text/html" if _HTML.match(head) else "text/plain"


def _charset_by_bom(head: bytes) -> str | None:
    return next((name for mark, name in _BOMS if head.startswith(mark)), None)
