"""What a body is, by its first bytes and by what the server says."""

import io
import zipfile

import pytest

from holdfast.fetch.content_types import sniff_charset, sniff_type

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PAGE = b"<!DOCTYPE html><html><title>A page</title>"


def packed(*names):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return data.getvalue()


@pytest.mark.parametrize(
    "header, body, kind",
    [
        ("text/html; charset=utf-8", PAGE, "text/html"),
        ("TEXT/HTML", PAGE, "text/html"),
        ("", PAGE, "text/html"),
        ("application/octet-stream", PAGE, "text/html"),
        ("nonsense", PAGE, "text/html"),
        ("", b"\xef\xbb\xbf \n<HTML>", "text/html"),
        ("", b"<!-- generated --><p>", "text/html"),
        ("", b"<pre>", "text/plain"),
        ("", b"plain words", "text/plain"),
        ("", b"", "application/octet-stream"),
        ("text/html", b"", "text/html"),
        ("text/markdown", b"<div align=center>\n# Title", "text/markdown"),
        ("text/plain", PAGE, "text/plain"),
        ("application/json", b'{"a": 1}', "application/json"),
        ("application/ld+json", b"{}", "application/ld+json"),
        ("application/rss+xml", b"<?xml version='1.0'?><rss>", "application/rss+xml"),
        ("", b"<?xml version='1.0'?><rss>", "application/xml"),
        ("", b"<?xml version='1.0'?>\n<html xmlns='x'>", "application/xhtml+xml"),
        ("application/pdf", b"%PDF-1.7\n", "application/pdf"),
        ("text/plain", b"%PDF-1.7\n", "application/pdf"),
        ("", b"\n\n" + b"junk " * 20 + b"%PDF-1.4", "application/pdf"),
        ("text/markdown", b"A PDF begins with %PDF-", "text/markdown"),
        ("application/pdf", PAGE, "text/html"),
        ("image/png", b"not found", "text/plain"),
        ("text/html", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("", b"GIF89a", "image/gif"),
        ("", b"\x1f\x8b\x08\x00", "application/gzip"),
        ("application/msword", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
        (WORD, packed("[Content_Types].xml", "word/document.xml"), WORD),
        ("", packed("[Content_Types].xml", "word/document.xml"), WORD),
        ("application/zip", packed("[Content_Types].xml", "word/document.xml"), WORD),
        (SHEET, packed("xl/workbook.xml"), SHEET),
        ("", packed("a.txt"), "application/zip"),
        ("text/html", b"\x00\x01\x02", "application/octet-stream"),
        ("", b"\x00\x01\x02", "application/octet-stream"),
        ("video/mp4", b"\x00\x00\x00\x18ftyp", "video/mp4"),
        ("", b"\xff\xfeh\x00i\x00", "text/plain"),
    ],
)
def test_the_type_is_the_one_announced_unless_the_bytes_contradict(header, body, kind):
    assert sniff_type(header, body) == kind


@pytest.mark.parametrize(
    "header, body, charset",
    [
        ("text/html; charset=utf-8", b"", "utf-8"),
        ('text/html;charset="UTF8"', b"", "utf-8"),
        ("text/html; charset=ISO-8859-1", b"", "iso8859-1"),
        ("text/html; charset=latin1; x=y", b"", "iso8859-1"),
        ("text/html; charset=windows-1252", b"", "cp1252"),
        ("text/html; charset=Shift_JIS", b"", "shift_jis"),
        ("text/html; charset=ascii", b"\xef\xbb\xbfa", "utf-8"),
        ("text/html", b"\xfe\xff\0a", "utf-16"),
        ("text/html", b"a", None),
        ("", b"a", None),
        ("text/html; charset=", b"", None),
        ("text/html; charset=unheard-of", b"", None),
        ("text/html; charset=idna", b"", None),
        ("text/html; charset=zlib_codec", b"", None),
        ("text/html; charset=../../x", b"", None),
    ],
)
def test_the_charset_is_one_that_the_web_uses(header, body, charset):
    assert sniff_charset(header, body) == charset


def test_every_charset_can_be_decoded_with():
    for name in ("utf-16", "mac-roman", "koi8-r", "cp1258", "iso8859-16", "euc_kr"):
        assert sniff_charset(f"text/plain; charset={name}", b"") is not None
        b"".decode(name)
