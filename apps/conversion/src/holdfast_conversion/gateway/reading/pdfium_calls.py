"""Functions of PDFium that are called for many characters, with plain numbers for addresses.

pypdfium2's own declarations wrap each pointer in an object; without that a call takes half the
time. A None for an address is a null pointer.
"""

import ctypes  # PDFium is a C library: its functions are declared with C types
from typing import Any

from pypdfium2 import raw  # type: ignore[import-untyped]  # PDFium's binding carries no types

_ADDRESS, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_float


def _declare(function: Any, result: Any, *arguments: Any) -> Any:
    return ctypes.cast(function, ctypes.CFUNCTYPE(result, *arguments))


loose_box = _declare(raw.FPDFText_GetLooseCharBox, _INT, _ADDRESS, _INT, _ADDRESS)
"""Write the FS_RECTF of a character: text page, index, target."""
ink_box = _declare(raw.FPDFText_GetCharBox, _INT, _ADDRESS, _INT, *[_ADDRESS] * 4)
"""Write left, right, bottom and top of a character: text page, index, four targets."""
origin = _declare(raw.FPDFText_GetCharOrigin, _INT, _ADDRESS, _INT, _ADDRESS, _ADDRESS)
"""Write x and y of a character's origin: text page, index, two targets."""
matrix = _declare(raw.FPDFText_GetMatrix, _INT, _ADDRESS, _INT, _ADDRESS)
"""Write the FS_MATRIX of a character: text page, index, target."""
font_size = _declare(raw.FPDFText_GetFontSize, ctypes.c_double, _ADDRESS, _INT)
"""Return the type size of a character before its matrix: text page, index."""
is_generated = _declare(raw.FPDFText_IsGenerated, _INT, _ADDRESS, _INT)
"""Say whether PDFium made a character up: text page, index."""
text_object = _declare(raw.FPDFText_GetTextObject, _ADDRESS, _ADDRESS, _INT)
"""Return the text object of a character, None if it has none: text page, index."""
font = _declare(raw.FPDFTextObj_GetFont, _ADDRESS, _ADDRESS)
"""Return the font of a text object."""
glyph_width = _declare(
    raw.FPDFFont_GetGlyphWidth, _INT, _ADDRESS, ctypes.c_uint32, _FLOAT, _ADDRESS
)
"""Write how far a letter moves the pen: font, code, size, target."""
