"""What fonts add to the text: advance widths, and letters whose codes are lost."""

import ctypes  # PDFium is a C library: it fills buffers of C types
import math
from typing import Any

from pypdfium2 import raw  # type: ignore[import-untyped]  # PDFium's binding carries no types

from holdfast_conversion.gateway.reading import pdfium_calls

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


class Advances(dict[str, float]):
    """How far each letter of a font moves the pen, in points; infinite if unknown.

    PDFium finds the glyph by its character, and a font may have several for one; so this is to be
    believed only where the ink of the glyph agrees.
    """

    def __init__(self, font: int | None, size: float) -> None:
        self._font = font
        self._size = size

    def __missing__(self, letter: str) -> float:
        width = ctypes.c_float()
        if self._font:
            pdfium_calls.glyph_width(self._font, ord(letter), 1.0, ctypes.addressof(width))
        self[letter] = (width.value or math.inf) * self._size
        return self[letter]


class Fonts:
    """The fonts of one page's text; `page` is PDFium's handle of it."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._address = ctypes.addressof(page.contents)
        self._advances: dict[tuple[int | None, float], Advances] = {}

    def advances(self, font: int | None, size: float) -> Advances:
        """Return the advances of the font at the address `font`, set in `size` points."""
        key = (font, size)
        found = self._advances.get(key)
        if found is None:
            found = self._advances[key] = Advances(*key)
        return found

    def letters(self, index: int, code: int) -> str:
        """Return what the glyph at `index` with the control code `code` says; empty if unknown."""
        name = ctypes.create_string_buffer(2)
        if raw.FPDFText_GetFontInfo(self._page, index, name, 2, ctypes.c_int()) > 1:
            return ""  # a font with a name has no such codes for letters
        letters = _TEX.get(code, "")
        if letters.isalpha() and not (self._is_letter(index, -1) or self._is_letter(index, 1)):
            return ""  # a symbol of a formula may have the same code
        return letters

    def _is_letter(self, index: int, step: int) -> bool:
        """Say whether the neighbour of a character is a small letter of the same font."""
        code = raw.FPDFText_GetUnicode(self._page, index + step)
        here, there = self._font_of(index), self._font_of(index + step)
        return ord("a") <= code <= ord("z") and here is not None and here == there

    def _font_of(self, index: int) -> int | None:
        """Return the address of the font of a character."""
        thing = pdfium_calls.text_object(self._address, index)
        font: int | None = pdfium_calls.font(thing) if thing else None
        return font
