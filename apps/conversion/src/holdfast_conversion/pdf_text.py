"""The text of a PDF, for other apps: paragraphs in the order of reading.

Call it in a child process with limits only (`holdfast.children`): PDFium is written in C++, and the
files are strangers'.
"""

from dataclasses import dataclass

from holdfast_conversion.gateway import reader_process
from holdfast_conversion.gateway.formats import MAGIC_WITHIN, check_magic
from holdfast_conversion.gateway.reading.blocks import blocks_of, paragraphs_of
from holdfast_conversion.gateway.reading.characters import clean
from holdfast_conversion.gateway.reading.lines import lines_of
from holdfast_conversion.gateway.reading.pdfium import Document
from holdfast_conversion.gateway.rejections import Reason, Rejection

__all__ = ["PdfRefused", "PdfText", "read_pdf_text", "warm_up_pdf"]

MOST_PAGES = 5_000


class PdfRefused(Exception):
    """A PDF cannot be read: an error code, and as the message a line for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = str(code)


@dataclass(frozen=True, slots=True)
class PdfText:
    """The title that the file gives itself, None where it has none, and its paragraphs."""

    title: str | None
    paragraphs: tuple[str, ...]


def read_pdf_text(data: bytes) -> PdfText:
    """Return the text of `data`.

    Raises:
        PdfRefused: it is no PDF, is damaged, needs a password or has too many pages.
    """
    try:
        check_magic(bytes(data[:MAGIC_WITHIN]))
        with Document.open(data) as document:
            if document.page_count > MOST_PAGES:
                raise Rejection(Reason.TOO_MANY_PAGES)
            return PdfText(_title(document), tuple(_paragraphs(document)))
    except Rejection as refused:
        raise PdfRefused(refused.reason.code, refused.reason.message) from None


def warm_up_pdf() -> None:
    """Load all that reading needs, before the process gives up opening files."""
    reader_process.warm_up()


def _title(document: Document) -> str | None:
    fields = dict(document.info())
    return " ".join(clean(fields.get("Title", "")).split()) or None


def _paragraphs(document: Document) -> list[str]:
    found: list[str] = []
    readable = False
    for page in document.pages(with_text=True):
        readable = readable or page.readable
        for block in blocks_of(lines_of(page)):
            found += paragraphs_of(block)
    if not readable:
        raise Rejection(Reason.DAMAGED, "no readable page")
    return found
