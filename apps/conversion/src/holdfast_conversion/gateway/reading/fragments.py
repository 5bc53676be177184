"""From characters to fragments: characters that stand close together, in PDFium's order."""

import math
import re

from holdfast_conversion.gateway.reading.fonts import CONTROLS
from holdfast_conversion.gateway.reading.page_model import OVERHANG, Fragment, is_likely_size
from holdfast_conversion.gateway.reading.text_page import LONGEST_RUN, TextPage, TextStyle

_SPACES = frozenset(
    map(
        chr,
        (
            *(0x09, 0x0A, 0x0D, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200C)),
            *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF),
        ),
    )
)
_LINE_END_HYPHENS = frozenset("\x02\ufffe")
"""What PDFium says in place of a hyphen that stands at the end of a line."""

_RUNS = re.compile(f"[!-~]{{1,{LONGEST_RUN}}}|.", re.DOTALL)
"""Printable ASCII, which is most of what there is and needs no closer look, or one character."""

_CONTEXTUAL = "\u0590"
"""From here on the same character has glyphs of several widths, by its neighbours."""

_LONGEST_FRAGMENT = 4096
"""Characters after which a fragment is cut, whatever follows: no line of type is that long."""


def fragments_of(page: TextPage) -> list[Fragment]:
    """Return the fragments of `page`."""
    return _FragmentReader(page).read()


class _FragmentReader:
    def __init__(self, page: TextPage) -> None:
        self._page = page
        self._done: list[Fragment] = []
        self._now: Fragment | None = None
        self._high = 0
        """The first half of a surrogate pair, which waits for the other."""

    def read(self) -> list[Fragment]:
        for match in _RUNS.finditer(self._page.text):
            first, stop = match.span()
            letter = self._page.text[first]
            if "!" <= letter <= "~":
                self._add_run(first, stop)
            elif letter in _SPACES:
                self._add_space(first, letter)
            else:
                self._add_other(first, letter)
        return self._done

    def _add_run(self, first: int, stop: int) -> None:
        page, text = self._page, self._page.text
        style = page.common_style(first, stop)
        index = first
        if style is not None:
            index += self._begin_run(text[first:stop], first, style)
        while index < stop:
            self._add(index, text[index], text[index], style or page.style_of(index))
            index += 1
            if style is not None and index < stop and self._now is not None:
                boxes, at = page.boxes(index, self._now.turn)
                index += self._now.take(text[index:stop], boxes, at, style.advances)

    def _begin_run(self, letters: str, index: int, style: TextStyle) -> int:
        """Begin a fragment with as many of `letters` as need no closer look; return how many.

        Most words are whole with this alone. Without a gap before the first letter there are none.
        """
        now = self._now
        if now is not None and now.turn != style.turn:
            return 0
        boxes, at = self._page.boxes(index, style.turn)
        if now is not None and not now.is_apart(boxes.starts[at]):
            return 0
        begun = Fragment.begin(letters, boxes, at, style.size, style.turn, style.advances)
        if begun is None:
            return 0
        self._now = begun
        self._done.append(begun)
        return len(begun.text)

    def _add_space(self, index: int, letter: str) -> None:
        if ord(letter) in CONTROLS and not self._page.is_generated(index):
            self._add_other(index, letter)
            return
        if self._now is None:
            return
        boxes, at = self._page.boxes(index, 0)
        # A space of PDFium's own making has no height; our own gap rule decides there.
        if boxes.uppers[at] != boxes.lowers[at]:
            self._now.closed = True
            self._now = None

    def _add_other(self, index: int, letter: str) -> None:
        """Add a character that is not printable ASCII, or skip it."""
        code = ord(letter)
        letters = letter
        if code in CONTROLS and not self._page.is_generated(index):
            letters = self._page.fonts.letters(index, code)
            if not letters:
                if code:  # 0 is not a glyph, though it may have a box
                    self._pass(index)
                return
        elif letter in _LINE_END_HYPHENS:
            letters = "-"
        elif 0xD800 <= code <= 0xDFFF:
            code, self._high = _join_surrogates(self._high, code)
            if not code:
                return
            letter = letters = chr(code)
        self._add(index, letter, letters, self._page.style_of(index))

    def _add(self, index: int, letter: str, letters: str, style: TextStyle) -> None:
        """Add the character `letter`, which reads as `letters`."""
        now = self._now
        if now is not None:
            boxes, at = self._page.boxes(index, now.turn)
            start, upper, end, lower = boxes.at(at)
            if now.takes(letters, start, end, lower) and len(now.text) < _LONGEST_FRAGMENT:
                pen = end
                if not now.is_last_glyph(start, end, lower):
                    pen = self._pen(index, letter, start, end, now, style)
                now.extend(letters, start, upper, end, lower, pen)
                return
        self._begin(index, letter, letters, style)

    def _pass(self, index: int) -> None:
        """Skip a glyph without text: the letters on both sides of it are still one word."""
        now = self._now
        if now is not None:
            boxes, at = self._page.boxes(index, now.turn)
            start, upper, end, lower = boxes.at(at)
            if now.takes("", start, end, lower):
                now.extend("", start, upper, end, lower, end)

    def _begin(self, index: int, letter: str, letters: str, style: TextStyle) -> None:
        boxes, at = self._page.boxes(index, style.turn)
        start, upper, end, lower = boxes.at(at)
        if not math.isfinite(start + upper + end + lower):
            return
        size = style.size
        # A Type 3 font may declare size 1 whatever its real size; use its boxes.
        if not is_likely_size(size, lower - upper):
            size = max(0.1, lower - upper)
        now = self._now = Fragment(letters, start, upper, end, lower, size, style.turn)
        now.end = self._pen(index, letter, start, end, now, style)
        self._done.append(now)

    def _pen(
        self, index: int, letter: str, start: float, end: float, now: Fragment, style: TextStyle
    ) -> float:
        """Return where the next character would begin; ink may reach beyond that: f, P, V.

        `start` and `end` bound both the ink and the advance. Without this the overhang of a letter
        hides a narrow space behind it.
        """
        advance = math.inf if letter >= _CONTEXTUAL else style.advances[letter]
        if not now.overhangs(start, end, advance):
            return end
        if abs(self._page.ink_end(index, now.turn) - end) > OVERHANG / 2 * now.size:
            return end  # the ink is not as wide, so the advance is, and was that of another glyph
        return min(end, max(start, self._page.origin(index, now.turn) + advance))


def _join_surrogates(high: int, code: int) -> tuple[int, int]:
    """Return the code point to write, 0 for none yet, and the half that waits for its other."""
    if code < 0xDC00:
        return 0, code
    if high:
        return 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00), 0
    return 0xFFFD, 0
