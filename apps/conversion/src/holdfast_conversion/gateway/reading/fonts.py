"""What fonts add to the text: advance widths, and letters whose codes are lost."""

import ctypes  # PDFium is a C library: it fills buffers of C types
import math
from typing import Any

from pypdfium2 import raw  # type: ignore[import-untyped]  # PDFium's binding carries no types

CONTROLS = frozenset({*range(0x20), *range(0x7F, 0xA0)}) - {0x02, 0x09}
"""Control codes: a glyph with one belongs to a font that names none of its characters."""

_LIGATURES = ("ff", "fi", "fl", "ffi", "ffl")
_TEX = {
    **dict(enumerate(_LIGATURES, 0x0B)),  # as Knuth's fonts have them
    **dict(enumerate("\u201c\u201d\u201e\xab\xbb\u2013\u2014", 0x10)),
    **dict(enumerate(_LIGATURES, 0x1B)),  # as the European ones do
    0x88: "\u2022",
}
"""The meaning of control codes in the pictures of letters that TeX made for PDFs without names."""


class Fonts:
    """The fonts of one page's text; `page` is PDFium's handle of it."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._objects: dict[int, tuple[Any, dict[int, float], float]] = {}
        self._widths: dict[int, dict[int, float]] = {}
        self._width = ctypes.c_float()

    def advance(self, index: int, code: int) -> float:
        """Return how far the character at `index` moves the pen, in points; infinite if unknown.

        PDFium finds the glyph by its character, and a font may have several for one; so this is
        to be believed only where the ink of the glyph agrees.
        """
        thing = raw.FPDFText_GetTextObject(self._page, index)
        if not thing:
            return math.inf
        address = ctypes.addressof(thing.contents)
        font, widths, size = self._objects.get(address) or self._look_at(thing, address, index)
        width = widths.get(code)
        if width is None:
            width = math.inf
            if font and raw.FPDFFont_GetGlyphWidth(font, code, 1.0, self._width):
                width = self._width.value or math.inf
            widths[code] = width
        return width * size

    def letters(self, index: int, code: int) -> str:
        """Return what the glyph at `index` with the control code `code` says; empty if unknown."""
        name = ctypes.create_string_buffer(2)
        if raw.FPDFText_GetFontInfo(self._page, index, name, 2, ctypes.c_int()) > 1:
            return ""  # a font with a name has no such codes for letters
        letters = _TEX.get(code, "")
        if letters.isalpha() and not (self._is_letter(index, -1) or self._is_letter(index, 1)):
            return ""  # a symbol of a formula may have the same code
        return letters

    def _look_at(self, thing: Any, address: int, index: int) -> tuple[Any, dict[int, float], float]:
        font, matrix = raw.FPDFTextObj_GetFont(thing), raw.FS_MATRIX()
        raw.FPDFText_GetMatrix(self._page, index, matrix)
        size = raw.FPDFText_GetFontSize(self._page, index) * math.hypot(matrix.a, matrix.b)
        widths = self._widths.setdefault(ctypes.addressof(font.contents), {}) if font else {}
        self._objects[address] = (font, widths, size)
        return self._objects[address]

    def _is_letter(self, index: int, step: int) -> bool:
        """Say whether the neighbour of a character is a small letter of the same font."""
        code = raw.FPDFText_GetUnicode(self._page, index + step)
        here, there = self._font_of(index), self._font_of(index + step)
        return ord("a") <= code <= ord("z") and here is not None and here == there

    def _font_of(self, index: int) -> int | None:
        thing = raw.FPDFText_GetTextObject(self._page, index)
        font = raw.FPDFTextObj_GetFont(thing) if thing else None
        return ctypes.addressof(font.contents) if font else None
