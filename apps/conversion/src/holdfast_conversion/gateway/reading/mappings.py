"""The three mappings from a PDF to XML: `layout`, `text` and `metadata`.

Each is described by a RELAX NG schema of the same name in `gateway/schemas`. The same bytes give
the same XML, always.
"""

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

from holdfast_conversion.gateway.formats import (
    MAGIC_WITHIN,
    Caps,
    Mapping,
    PagesRead,
    check_magic,
)
from holdfast_conversion.gateway.reading.blocks import blocks_of, paragraphs_of
from holdfast_conversion.gateway.reading.characters import clean
from holdfast_conversion.gateway.reading.lines import lines_of
from holdfast_conversion.gateway.reading.page_model import PdfPage
from holdfast_conversion.gateway.reading.pdfium import Document
from holdfast_conversion.gateway.reading.xml import (
    DECLARATION,
    Sink,
    XmlWriter,
    escaped,
    points,
    without_zeros,
)
from holdfast_conversion.gateway.rejections import Reason, Rejection

_DEFAULT_CAPS = Caps()
_MOST_BOOKMARKS = 10_000
_DATE = re.compile(
    r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*(?:([-+Zz])\s*(\d\d)?'?(\d\d)?'?)?"
)


def convert(pdf: bytes | Path, mapping: Mapping | str, caps: Caps = _DEFAULT_CAPS) -> bytes:
    """Return the XML of `pdf`, read in this process: only for files that are trusted.

    Raises:
        Rejection: the file cannot be converted; the reason says why.
        ValueError: there is no such mapping.
    """
    data = pdf if isinstance(pdf, bytes) else pdf.read_bytes()
    sink = io.BytesIO()
    convert_into(data, Mapping(mapping), sink, caps).check_readable()
    return sink.getvalue()


def convert_into(
    data: Any, mapping: Mapping, sink: Sink, caps: Caps, first: int = 0, stop: int | None = None
) -> PagesRead:
    """Write the XML of `data`, bytes or a map of a file, into `sink`.

    With `first` and `stop` only the pages between these indexes, from 0, are read. What the calls
    for all ranges of a document write is, one after the other, what one call for all pages writes.
    The mapping `metadata` is never read in ranges.

    Raises:
        Rejection: the file cannot be converted; what was written so far is to be thrown away.
    """
    check_magic(bytes(data[:MAGIC_WITHIN]))
    with Document.open(data) as document:
        if document.page_count < 1:
            raise Rejection(Reason.DAMAGED, "no pages")
        if document.page_count > caps.pages:
            raise Rejection(Reason.TOO_MANY_PAGES, str(document.page_count))
        writer = XmlWriter(sink, caps.output_bytes)
        if mapping is Mapping.METADATA:
            _write_metadata(document, writer)
            readable = True
        else:
            pages = range(document.page_count)[first:stop]
            readable = _write_pages(document, writer, _PAGE_MAPPINGS[mapping], pages)
        writer.flush()
        return PagesRead(document.page_count, readable)


# -- pages -----------------------------------------------------------------------------------------


class _PageMapping(NamedTuple):
    """How one page is written: the attributes of its element, and what is inside."""

    name: Mapping
    attributes: Callable[[PdfPage], str]
    body: Callable[[XmlWriter, PdfPage], None]


def _write_pages(
    document: Document, writer: XmlWriter, mapping: _PageMapping, indexes: range
) -> bool:
    """Write the pages at `indexes`, and say whether any was readable."""
    count = document.page_count
    if indexes.start == 0:
        writer.put(DECLARATION)
        writer.put(f'<document xmlns="urn:holdfast:{mapping.name}:1" pages="{count}">\n')
    readable = False
    for page in document.pages(indexes, with_text=True):
        readable = readable or page.readable
        writer.put(f'<page number="{page.number}"{mapping.attributes(page)}>\n')
        mapping.body(writer, page)
        writer.put("</page>\n")
    if indexes.stop == count:
        writer.put("</document>\n")
    return readable


def _page_size(page: PdfPage) -> str:
    size = f' width="{points(page.width)}" height="{points(page.height)}"'
    return f'{size} rotation="{page.rotation}"{_page_state(page)}'


def _page_state(page: PdfPage) -> str:
    return "" if page.readable else ' readable="false"'


# -- layout ----------------------------------------------------------------------------------------


def _write_blocks(writer: XmlWriter, page: PdfPage) -> None:
    heights = _Lengths()
    for block in blocks_of(lines_of(page)):
        parts = [_BLOCK % block.box]
        for line in block.lines:
            parts.append(_LINE % line.box)
            parts += [
                f'<word x0="{x0:.2f}" y0="{heights[y0]}" x1="{x1:.2f}" y1="{heights[y1]}">'
                f"{escaped(text)}</word>"
                for text, (x0, y0, x1, y1) in line.words
            ]
            parts.append("</line>\n")
        parts.append("</block>\n")
        writer.put(without_zeros("".join(parts)))


_BLOCK = '<block x0="%.2f" y0="%.2f" x1="%.2f" y1="%.2f">\n'
_LINE = '<line x0="%.2f" y0="%.2f" x1="%.2f" y1="%.2f">'


class _Lengths(dict[float, str]):
    """Lengths as text, each made once: the words of a line stand at one height."""

    def __missing__(self, length: float) -> str:
        self[length] = text = f"{length:.2f}"
        return text


# -- text ------------------------------------------------------------------------------------------


def _write_paragraphs(writer: XmlWriter, page: PdfPage) -> None:
    for block in blocks_of(lines_of(page)):
        for paragraph in paragraphs_of(block):
            writer.put(f"<p>{escaped(paragraph)}</p>\n")


# -- metadata --------------------------------------------------------------------------------------


def _write_metadata(document: Document, writer: XmlWriter) -> None:
    flags = (
        f'pages="{document.page_count}" tagged="{_yes(document.is_tagged)}" '
        f'encrypted="{_yes(document.is_encrypted)}"'
    )
    version = f' version="{document.version}"' if document.version else ""
    writer.put(DECLARATION)
    writer.put(f'<document xmlns="urn:holdfast:metadata:1" {flags}{version}>\n<info>\n')
    for name, value in document.info():
        _write_field(writer, name, _one_line(value))
    writer.put("</info>\n<outline>\n")
    for entry in document.outline(_MOST_BOOKMARKS):
        page = f' page="{entry.page}"' if entry.page else ""
        title = escaped(_one_line(entry.title))
        writer.put(f'<entry level="{entry.level}"{page}>{title}</entry>\n')
    writer.put("</outline>\n<sizes>\n")
    for sheet in document.pages(with_text=False):
        writer.put(f'<page number="{sheet.number}"{_page_size(sheet)}/>\n')
    writer.put("</sizes>\n</document>\n")


def _write_field(writer: XmlWriter, name: str, value: str) -> None:
    if not value:
        return
    moment = iso_date(value) if name.endswith("Date") else None
    iso = f' iso="{moment}"' if moment else ""
    writer.put(f'<field name="{name}"{iso}>{escaped(value)}</field>\n')


def iso_date(value: str) -> str | None:
    """Return a date of the PDF form `D:YYYYMMDDHHmmSS+HH'mm'` as ISO 8601 in UTC, or None.

    Without a zone the time is taken as UTC, which is what the PDF standard leaves open.
    """
    match = _DATE.fullmatch(value.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (
        int(part) if part else least
        for part, least in zip(match.groups()[:6], (0, 1, 1, 0, 0, 0), strict=True)
    )
    sign, hours, minutes = match.groups()[6:]
    zone = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        there = timezone(-zone if sign == "-" else zone)
        moment = datetime(year, month, day, hour, minute, second, tzinfo=there).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if year >= 1000 else None


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _yes(value: bool) -> str:
    return "true" if value else "false"


_PAGE_MAPPINGS = {
    mapping.name: mapping
    for mapping in (
        _PageMapping(Mapping.LAYOUT, _page_size, _write_blocks),
        _PageMapping(Mapping.TEXT, _page_state, _write_paragraphs),
    )
}
