"""The characters of one page as PDFium has them: their codes, their boxes and their type.

A call from Python costs more than what PDFium does in it. So the text of a page is fetched at once,
boxes are fetched many at a time, and what the characters of a text object have in common is fetched
once for each object.
"""

import ctypes  # PDFium is a C library: it takes and fills buffers of C types
import math
from array import array
from collections import deque
from itertools import repeat
from typing import Any, NamedTuple

from pypdfium2 import raw  # type: ignore[import-untyped]  # PDFium's binding carries no types

from holdfast_conversion.gateway.reading import pdfium_calls
from holdfast_conversion.gateway.reading.fonts import Advances, Fonts
from holdfast_conversion.gateway.reading.placing import Boxes, Placing

LONGEST_RUN = 512
"""So many characters from any one on have their boxes in one `Boxes`."""
_WINDOW = 8192
"""Characters whose boxes are held at once, so that memory does not grow with the page."""
_RECT_BYTES = ctypes.sizeof(raw.FS_RECTF)
_NO_DOUBLES: list[ctypes.c_double | float] = [0.0] * 4
_DOUBLE_BYTES = ctypes.sizeof(ctypes.c_double)


class TextStyle(NamedTuple):
    """What the characters of a text object have in common.

    `size` is the type size in points. `advances` holds how far a letter moves the pen, in points.
    """

    turn: int
    size: float
    advances: Advances


class TextPage:
    """The characters of one page; `text` is the text page of pypdfium2."""

    def __init__(self, text: Any, placing: Placing) -> None:
        self.text = _text_of(text.raw, text.count_chars())
        """One Python character for each of PDFium's, also for half a surrogate pair."""
        self.fonts = Fonts(text.raw)
        self._placing = placing
        self._address = ctypes.addressof(text.raw.contents)
        self._styles: dict[int, TextStyle] = {}
        """By the address of a text object."""
        self._known: dict[tuple[float | int | None, ...], TextStyle] = {}
        """By what a style is made from: many text objects have the same."""
        self._object = 0
        """The address of the text object that was looked at last."""
        self._rects = (raw.FS_RECTF * min(len(self.text), _WINDOW))()
        self._first = self._stop = self._last_start = 0
        self._sides: list[list[float]] = []
        self._frames: dict[int, Boxes] = {}
        self._matrix = raw.FS_MATRIX()
        self._doubles = (ctypes.c_double * 4)()
        first = ctypes.addressof(self._doubles)
        self._double_addresses = [first + number * _DOUBLE_BYTES for number in range(4)]

    def style_of(self, index: int) -> TextStyle:
        """Return the style of a character."""
        address = pdfium_calls.text_object(self._address, index)
        if address is None:
            return self._look_at(index, None)
        self._object = address
        style = self._styles.get(address)
        if style is None:
            style = self._styles[address] = self._look_at(index, address)
        return style

    def common_style(self, first: int, stop: int) -> TextStyle | None:
        """Return the style of the characters from `first` to `stop`; None if they have several.

        The characters of a text object follow each other. So where the last of them is of the same
        object as the character looked at before, all are.
        """
        address = pdfium_calls.text_object(self._address, stop - 1)
        if address == self._object:
            return self._styles[address]
        style = self.style_of(first)
        return style if self._object == address or stop - first == 1 else None

    def boxes(self, index: int, turn: int) -> tuple[Boxes, int]:
        """Return boxes in the reading frame of `turn`, and the place of character `index` there.

        A box bounds both the ink and the advance of a character. The boxes of the `LONGEST_RUN`
        characters from `index` on are all there, if the page has so many.
        """
        if not self._first <= index < self._last_start:
            self._load(index)
        frame = self._frames.get(turn)
        if frame is None:
            frame = self._frames[turn] = self._placing.frame(self._sides, turn)
        return frame, index - self._first

    def ink_end(self, index: int, turn: int) -> float:
        """Return where the ink of a character ends in the reading frame of `turn`."""
        self._doubles[:] = _NO_DOUBLES
        pdfium_calls.ink_box(self._address, index, *self._double_addresses)
        left, right, bottom, top = self._doubles
        return self._placing.frame([[left], [top], [right], [bottom]], turn).ends[0]

    def origin(self, index: int, turn: int) -> float:
        """Return where the pen is before a character, in the reading frame of `turn`."""
        self._doubles[:] = _NO_DOUBLES
        pdfium_calls.origin(self._address, index, *self._double_addresses[:2])
        x, y = self._doubles[:2]
        return self._placing.frame([[x], [y]] * 2, turn).starts[0]

    def is_generated(self, index: int) -> bool:
        """Say whether PDFium made this character up, as a space between two words."""
        return bool(pdfium_calls.is_generated(self._address, index))

    def _load(self, index: int) -> None:
        """Fetch boxes from that of character `index` on."""
        self._first, self._stop = index, min(len(self.text), index + _WINDOW)
        at_end = self._stop == len(self.text)
        self._last_start = self._stop if at_end else self._stop - LONGEST_RUN
        self._frames.clear()
        start = ctypes.addressof(self._rects)
        targets = range(start, start + ctypes.sizeof(self._rects), _RECT_BYTES)
        indexes = range(self._first, self._stop)
        deque(map(pdfium_calls.loose_box, repeat(self._address), indexes, targets), maxlen=0)
        floats = array("f")
        floats.frombytes(memoryview(self._rects).cast("B")[: len(indexes) * _RECT_BYTES])
        self._sides = [floats[side::4].tolist() for side in range(4)]

    def _look_at(self, index: int, thing: int | None) -> TextStyle:
        """Return the style of a character; `thing` is the address of its text object."""
        matrix = self._matrix
        if not pdfium_calls.matrix(self._address, index, ctypes.addressof(matrix)):
            matrix = raw.FS_MATRIX()  # all zero
        a, b, c, d = matrix.a, matrix.b, matrix.c, matrix.d
        size = pdfium_calls.font_size(self._address, index)
        font = pdfium_calls.font(thing) if thing else None
        key = (a, b, c, d, size, font)
        style = self._known.get(key)
        if style is None:
            advances = self.fonts.advances(font, size * math.hypot(a, b))
            turn = self._placing.turn_of(a, b)
            style = self._known[key] = TextStyle(turn, size * math.hypot(c, d), advances)
        return style


def _text_of(handle: Any, count: int) -> str:
    buffer = (ctypes.c_ushort * (2 * count + 1))()  # room for surrogate pairs
    written = raw.FPDFText_GetText(handle, 0, count, buffer)
    text = bytes(buffer)[: 2 * count].decode("utf-16-le", "surrogatepass")
    if written == count + 1 and len(text) == count:
        return text
    # PDFium leaves out characters without a code, and Python joins surrogate pairs.
    return "".join(chr(raw.FPDFText_GetUnicode(handle, index)) for index in range(count))
