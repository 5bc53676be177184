"""The only module that calls PDFium to open a document and read its pages.

Everything here runs inside a limited child process. What is a word, a line or a paragraph is
decided by the modules beside this one.
"""

import ctypes  # PDFium is a C library: it takes and fills buffers of C types
import math
import mmap
from collections.abc import Iterable, Iterator
from typing import Any, Self

# PDFium's binding carries no type information.
import pypdfium2 as pdfium  # type: ignore[import-untyped]
from pypdfium2 import raw

from holdfast_conversion.gateway.reading.fragments import fragments_of
from holdfast_conversion.gateway.reading.page_model import Bookmark, Fragment, PdfPage
from holdfast_conversion.gateway.reading.placing import Placing
from holdfast_conversion.gateway.reading.text_page import TextPage
from holdfast_conversion.gateway.rejections import Reason, Rejection

_INFO = ("Title", "Author", "Subject", "Keywords", "Creator", "Producer", "CreationDate", "ModDate")


class Document:
    """An open PDF. Use it as a context manager."""

    def __init__(self, handle: Any, keep_alive: object) -> None:
        self._pdf = handle
        self._keep_alive = keep_alive  # PDFium reads from this memory as long as it is open

    @classmethod
    def open(cls, data: Any) -> Self:
        """Open `data`, a `bytes` object or a writable map of a file.

        Raises:
            Rejection: PDFium cannot open it.
        """
        if isinstance(data, mmap.mmap):
            # PDFium reads from the map itself, so that no copy of the file is made.
            data = (ctypes.c_char * len(data)).from_buffer(data)
        try:
            handle = pdfium.PdfDocument(data)
        except pdfium.PdfiumError as error:
            code = getattr(error, "err_code", None)
            if code in {raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY}:
                raise Rejection(Reason.ENCRYPTED) from None
            raise Rejection(Reason.DAMAGED) from None
        return cls(handle, data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pdf.close()

    @property
    def page_count(self) -> int:
        """The number of pages that the document says it has."""
        return len(self._pdf)

    @property
    def version(self) -> str:
        """The PDF version of the header, such as `1.7`; empty where there is none."""
        number = self._pdf.get_version()
        return f"{number // 10}.{number % 10}" if number else ""

    @property
    def is_tagged(self) -> bool:
        """Whether the document carries a structure tree."""
        return bool(self._pdf.is_tagged())

    @property
    def is_encrypted(self) -> bool:
        """Whether the document is encrypted; one that opens at all needs no password."""
        return int(raw.FPDF_GetSecurityHandlerRevision(self._pdf)) >= 0

    def info(self) -> Iterator[tuple[str, str]]:
        """Yield the name and value of each standard entry of the information dictionary."""
        for name in _INFO:
            value = _text(raw.FPDF_GetMetaText, self._pdf, name.encode())
            if value:
                yield name, value

    def outline(self, most: int) -> Iterator[Bookmark]:
        """Yield the bookmarks in order, at most `most` of them."""
        for number, bookmark in enumerate(self._pdf.get_toc(max_depth=15)):
            if number >= most:
                return
            target = bookmark.get_dest()
            index = None if target is None else target.get_index()
            page = None if index is None or index < 0 else index + 1
            title = _text(raw.FPDFBookmark_GetTitle, bookmark)
            yield Bookmark(bookmark.level + 1, page, title)

    def pages(self, indexes: Iterable[int] | None = None, *, with_text: bool) -> Iterator[PdfPage]:
        """Yield the pages at `indexes`, from 0, or all; only one is held open at a time."""
        for index in range(self.page_count) if indexes is None else indexes:
            try:
                page = self._pdf[index]
            except pdfium.PdfiumError:
                # One broken page does not spoil the others; its number stays.
                yield PdfPage(index + 1, 0.0, 0.0, 0, readable=False)
                continue
            try:
                yield _read_page(page, index + 1, with_text)
            finally:
                page.close()


def _read_page(page: Any, number: int, with_text: bool) -> PdfPage:
    box = raw.FS_RECTF()
    raw.FPDF_GetPageBoundingBox(page, box)
    turns = max(0, raw.FPDFPage_GetRotation(page)) % 4
    width, height = _finite(box.right - box.left), _finite(box.top - box.bottom)
    shown = (height, width) if turns % 2 else (width, height)
    fragments: list[Fragment] = []
    readable = True
    if with_text:
        try:
            text = page.get_textpage()
        except pdfium.PdfiumError:
            readable = False
        else:
            placing = Placing(_finite(box.left), _finite(box.top), width, height, turns)
            fragments = fragments_of(TextPage(text, placing))
            text.close()
    return PdfPage(number, *shown, turns * 90, readable, fragments)


def _text(function: Any, *arguments: Any) -> str:
    """Return the UTF-16 text that `function` writes; half a surrogate pair is kept as it is."""
    size = function(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, buffer, size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", "surrogatepass")


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
