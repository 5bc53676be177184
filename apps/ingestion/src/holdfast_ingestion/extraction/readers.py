"""Read HTML, PDF and DOCX. Only the child process imports this: the files are strangers'."""

import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import docx
import lxml.html
import trafilatura
from docx.document import Document as WordDocument
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.table import Table
from docx.text.paragraph import Paragraph

from holdfast.errors import ErrorCode
from holdfast_conversion.pdf_text import PdfRefused, read_pdf_text
from holdfast_ingestion.extraction.plain_text import one_line, tidy
from holdfast_ingestion.formats import Format

_MOST_UNPACKED = 200 * 2**20
"""Bytes that the parts of a DOCX may have together, as its directory says."""
_SHOWN_TEXT = (
    "//body//text()[not(ancestor::script or ancestor::style or ancestor::noscript"
    " or ancestor::template or ancestor::svg or ancestor::iframe)]"
)


class Unreadable(Exception):
    """A file cannot be read: an error code, and as the message a line for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = str(code)


@dataclass(frozen=True, slots=True)
class ReadText:
    """What was found in a file."""

    title: str | None
    text: str


def read(data: bytes, chosen: Format) -> ReadText:
    """Return the text of `data`; HTML must be in UTF-8.

    Raises:
        Unreadable: it is not of the format `chosen`, or damaged.
    """
    found = _READERS[chosen](data)
    return ReadText(one_line(found.title), tidy(found.text))


def _read_html(data: bytes) -> ReadText:
    tree = trafilatura.load_html(data.decode("utf-8", "replace"))
    if tree is None:  # a fragment, or hardly any markup
        return ReadText(None, _all_text(data))
    title = tree.findtext(".//title") or tree.findtext(".//h1")
    text = trafilatura.extract(
        tree, include_comments=False, include_tables=True, deduplicate=False, favor_recall=True
    )
    return ReadText(title, text or _all_text(data))


def _all_text(data: bytes) -> str:
    """Return all text of a page that has no main text: a short notice, a list of links."""
    try:
        tree = lxml.html.document_fromstring(data, parser=_PARSER)
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError):
        return ""
    found = tree.xpath(_SHOWN_TEXT)
    assert isinstance(found, list)
    pieces = (str(text).strip() for text in found)
    return "\n".join(piece for piece in pieces if piece)


_PARSER = lxml.html.HTMLParser(encoding="utf-8", no_network=True)


def _read_pdf(data: bytes) -> ReadText:
    try:
        found = read_pdf_text(data)
    except PdfRefused as refused:
        raise Unreadable(refused.code, str(refused)) from None
    return ReadText(found.title, "\n\n".join(found.paragraphs))


def _read_docx(data: bytes) -> ReadText:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(part.file_size for part in archive.infolist()) > _MOST_UNPACKED:
                raise Unreadable(ErrorCode.TOO_LARGE, "This document is too large when unpacked.")
        document = docx.Document(io.BytesIO(data))
        text = "\n\n".join(_word_lines(document))
        return ReadText(_word_title(document), text)
    except Unreadable:
        raise
    except MemoryError:
        raise
    except Exception as error:
        # python-docx raises whatever its parts meet: KeyError, ValueError, XML errors.
        line = "This is not a DOCX document, or it is damaged."
        raise Unreadable(ErrorCode.PARSE_ERROR, line) from error


def _word_title(document: WordDocument) -> str | None:
    """Return the title in a document's properties; where it has none, python-docx makes one up."""
    parts = document.part.package.rels.values()
    if not any(part.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for part in parts):
        return None
    return document.core_properties.title or None


def _word_lines(document: WordDocument) -> Iterator[str]:
    for part in document.iter_inner_content():
        if isinstance(part, Paragraph):
            yield part.text
        elif isinstance(part, Table):
            for row in part.rows:
                yield " | ".join(cell.text for cell in row.cells)


_READERS: dict[Format, Callable[[bytes], ReadText]] = {
    Format.HTML: _read_html,
    Format.PDF: _read_pdf,
    Format.DOCX: _read_docx,
}
