"""The only module that calls PDFium to open a document and read its pages.

Everything here runs inside a limited child process. PDFium returns characters in the order of the
page's content, each with the box of its advance; what is a word, a line or a paragraph is decided
by the modules beside this one.
"""

import ctypes  # PDFium is a C library: it takes and fills buffers of C types
import math
import mmap
from collections.abc import Iterator
from typing import Any, Self

# PDFium's binding carries no type information.
import pypdfium2 as pdfium  # type: ignore[import-untyped]
from pypdfium2 import raw

from holdfast_conversion.gateway.reading.fonts import CONTROLS, Fonts
from holdfast_conversion.gateway.reading.page_model import Bookmark, Fragment, PdfPage
from holdfast_conversion.gateway.rejections import Reason, Rejection

_SPACES = frozenset(
    {
        *(0x09, 0x0A, 0x0D, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200C)),
        *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF),
    }
)
_LINE_END_HYPHENS = frozenset({0x02, 0xFFFE})
"""What PDFium says in place of a hyphen that stands at the end of a line."""

_CONTEXTUAL = 0x590
"""From here on the same character has glyphs of several widths, by its neighbours."""
_OVERHANG = 0.02
"""Share of the type size that ink reaches beyond the advance before it is worth a look."""

_LONGEST_FRAGMENT = 4096
"""Characters after which a fragment is cut, whatever follows: no line of type is that long."""

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
            value = self._pdf.get_metadata_value(name)
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
            yield Bookmark(bookmark.level + 1, page, bookmark.get_title())

    def pages(self, *, with_text: bool) -> Iterator[PdfPage]:
        """Yield each page in order; only one is held open at a time."""
        for index in range(self.page_count):
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
            placing = _Placing(_finite(box.left), _finite(box.top), width, height, turns)
            fragments = _Fragments(text, placing).read()
            text.close()
    return PdfPage(number, *shown, turns * 90, readable, fragments)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


class _Placing:
    """Turn PDF coordinates into those of a reader who looks along the text.

    `turn` counts the quarter turns, anticlockwise, by which the text is turned on the page as it
    is shown. In its reading frame the text runs along the first axis and lines follow each other
    along the second.
    """

    __slots__ = ("height", "left", "page_turns", "top", "width")

    def __init__(
        self, left: float, top: float, width: float, height: float, page_turns: int
    ) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.page_turns = page_turns

    def turn_of(self, matrix: Any) -> int:
        quarter = math.atan2(matrix.b, matrix.a) / (math.pi / 2)
        return (round(quarter) - self.page_turns) % 4 if math.isfinite(quarter) else 0

    def frame(self, rect: Any, turn: int) -> tuple[float, float, float, float]:
        """Return the box in the reading frame: start, upper, end, lower."""
        x0, x1 = rect.left - self.left, rect.right - self.left
        y0, y1 = self.top - rect.top, self.top - rect.bottom
        if self.page_turns == 1:
            x0, y0, x1, y1 = self.height - y1, x0, self.height - y0, x1
        elif self.page_turns == 2:
            x0, y0, x1, y1 = self.width - x1, self.height - y1, self.width - x0, self.height - y0
        elif self.page_turns == 3:
            x0, y0, x1, y1 = y0, self.width - x1, y1, self.width - x0
        if turn == 0:
            return x0, y0, x1, y1
        if turn == 1:
            return -y1, x0, -y0, x1
        if turn == 2:
            return -x1, -y1, -x0, -y0
        return y0, -x1, y1, -x0


class _Fragments:
    """Join the characters of one page that stand close together, in PDFium's order."""

    def __init__(self, text: Any, placing: _Placing) -> None:
        self._handle = text.raw
        self._count = text.count_chars()
        self._placing = placing
        self._fonts = Fonts(text.raw)
        self._done: list[Fragment] = []
        self._now: Fragment | None = None

    def read(self) -> list[Fragment]:
        handle, rect = self._handle, raw.FS_RECTF()
        target = ctypes.byref(rect)
        unicode_of, box_of = raw.FPDFText_GetUnicode, raw.FPDFText_GetLooseCharBox
        high = 0
        for index in range(self._count):
            code = unicode_of(handle, index)
            letters = ""
            if code in CONTROLS and not raw.FPDFText_IsGenerated(handle, index):
                letters = self._fonts.letters(index, code)
                if not letters:
                    if code:  # 0 is not a glyph, though it may have a box
                        self._pass(index, rect)
                    continue
            elif code in _SPACES:
                box_of(handle, index, target)
                # A space of PDFium's own making has no height; our own gap rule decides there.
                if rect.top != rect.bottom and self._now is not None:
                    self._now.closed = True
                    self._now = None
                continue
            elif code in _LINE_END_HYPHENS:
                letters = "-"
            elif 0xD800 <= code <= 0xDFFF:
                code, high = _join_surrogates(high, code)
                if not code:
                    continue
            if box_of(handle, index, target):
                self._add(index, code, letters or chr(code), rect)
        return self._done

    def _add(self, index: int, code: int, letters: str, rect: Any) -> None:
        now = self._now
        if now is not None:
            start, upper, end, lower = self._placing.frame(rect, now.turn)
            if now.takes(letters, start, end, lower) and len(now.text) < _LONGEST_FRAGMENT:
                pen = end
                if not now.is_last_glyph(start, end, lower):
                    pen = self._pen(index, code, start, end, now)
                now.extend(letters, start, upper, end, lower, pen)
                return
        self._begin(index, code, letters, rect)

    def _pass(self, index: int, rect: Any) -> None:
        """Skip a glyph without text: the letters on both sides of it are still one word."""
        now = self._now
        if now is not None and raw.FPDFText_GetLooseCharBox(self._handle, index, rect):
            start, upper, end, lower = self._placing.frame(rect, now.turn)
            if now.takes("", start, end, lower):
                now.extend("", start, upper, end, lower, end)

    def _begin(self, index: int, code: int, letters: str, rect: Any) -> None:
        matrix = raw.FS_MATRIX()
        raw.FPDFText_GetMatrix(self._handle, index, matrix)
        turn = self._placing.turn_of(matrix)
        start, upper, end, lower = self._placing.frame(rect, turn)
        size = raw.FPDFText_GetFontSize(self._handle, index) * math.hypot(matrix.c, matrix.d)
        if not all(map(math.isfinite, (start, upper, end, lower))):
            return
        # A Type 3 font may declare size 1 whatever its real size; use its boxes.
        if not 0.4 * (lower - upper) < size < 10_000:
            size = max(0.1, lower - upper)
        now = self._now = Fragment(letters, start, upper, end, lower, size, turn)
        now.end = self._pen(index, code, start, end, now)
        self._done.append(now)

    def _pen(self, index: int, code: int, start: float, end: float, now: Fragment) -> float:
        """Return where the next character would begin; ink may reach beyond that: f, P, V.

        `start` and `end` bound both the ink and the advance. Without this the overhang of a letter
        hides a narrow space behind it.
        """
        advance = math.inf if code >= _CONTEXTUAL else self._fonts.advance(index, code)
        if not start + advance < end - _OVERHANG * now.size:
            return end
        edges = [ctypes.c_double() for _ in range(4)]
        raw.FPDFText_GetCharBox(self._handle, index, *edges)
        left, right, bottom, top = (edge.value for edge in edges)
        ink_end = self._placing.frame(raw.FS_RECTF(left, top, right, bottom), now.turn)[2]
        if abs(ink_end - end) > _OVERHANG / 2 * now.size:
            return end  # the ink is not as wide, so the advance is, and was that of another glyph
        x, y = edges[:2]
        raw.FPDFText_GetCharOrigin(self._handle, index, x, y)
        origin = self._placing.frame(raw.FS_RECTF(x.value, y.value, x.value, y.value), now.turn)[0]
        return min(end, max(start, origin + advance))


def _join_surrogates(high: int, code: int) -> tuple[int, int]:
    """Return the code point to write, 0 for none yet, and the half that waits for its other."""
    if code < 0xDC00:
        return 0, code
    if high:
        return 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00), 0
    return 0xFFFD, 0
