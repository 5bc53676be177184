"""From characters to fragments: characters that stand close together, in PDFium's order."""

import math
import re

from holdfast_conversion.gateway.reading.fonts import CONTROLS
from holdfast_conversion.gateway.reading.page_model import (
    NEW_BASELINE,
    OVERHANG,
    STEP_BACK,
    WORD_GAP,
    Fragment,
    is_likely_size,
)
from holdfast_conversion.gateway.reading.placing import Boxes
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

_RUNS = re.compile(f"([!-~]{{1,{LONGEST_RUN}}}) ?|.", re.DOTALL)
"""Printable ASCII, which is most of what there is, with the space behind it; or one character."""

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
        text = self._page.text
        for match in _RUNS.finditer(text):
            letters = match[1]
            index = match.start()
            if letters is None:
                self._add_single(index, text[index])
                continue
            stop = index + len(letters)
            self._add_run(letters, index, stop)
            if match.end() > stop:
                self._end_word(stop)
        return self._done

    def _add_run(self, letters: str, first: int, stop: int) -> None:
        page = self._page
        style = page.common_style(first, stop)
        if style is None:
            for index, letter in enumerate(letters, first):
                self._add(index, letter, letter, page.style_of(index))
            return
        index = first + self._begin_run(letters, first, style)
        while index < stop:
            letter = letters[index - first]
            self._add(index, letter, letter, style)
            index += 1
            if index < stop and self._now is not None:
                boxes, at = page.boxes(index, self._now.turn)
                index += self._follow(letters[index - first :], index, self._now, style, boxes, at)

    def _begin_run(self, letters: str, index: int, style: TextStyle) -> int:
        """Begin a fragment with as many of `letters` as simply follow each other; return how many.

        Most words are whole with this alone. Without a gap before the first letter there are none.
        """
        now, size, turn = self._now, style.size, style.turn
        if now is not None and now.turn != turn:
            return 0
        boxes, at = self._page.boxes(index, turn)
        starts, uppers, _, lowers = boxes
        start, lower = starts[at], lowers[at]
        if now is not None and not now.is_apart(start):
            return 0
        if not (uppers[at] <= lower and is_likely_size(size, lower - uppers[at])):
            return 0
        begun = Fragment("", start, uppers[at], start, lower, size, turn)
        taken = self._follow(letters, index, begun, style, boxes, at)
        if taken:
            self._now = begun
            self._done.append(begun)
        return taken

    def _follow(
        self, letters: str, index: int, now: Fragment, style: TextStyle, boxes: Boxes, at: int
    ) -> int:
        """Add ASCII letters to `now` as long as each simply follows the one before, on one line.

        Return how many; the next is worth a closer look. The first is the character at `index`,
        its box is at place `at` of `boxes`.
        """
        starts, _, ends, lowers = boxes
        size, advances = now.size, style.advances
        back, apart = -STEP_BACK * size, WORD_GAP * size
        shift, overhang = NEW_BASELINE * size, OVERHANG * size
        reach, (_, _, last_lower) = now.end, now.last
        place = at
        for letter in letters:
            start, end, lower = starts[place], ends[place], lowers[place]
            if not (back < start - reach < apart and -shift < lower - last_lower < shift):
                break
            if end < reach:
                break
            if start + advances[letter] < end - overhang:
                last = now.last if place == at else boxes.last(place - 1)
                if (start, end, lower) == last or end == math.inf:
                    break
                pen = self._pen(index + place - at, letter, start, end, now, style)
                reach = max(reach, pen)
            else:
                reach = end
            last_lower = lower
            place += 1
        if place > at:
            now.add(letters[: place - at], boxes, at, place, reach)
        return place - at

    def _add_single(self, index: int, letter: str) -> None:
        """Add a character that is not of a run, or end a word at it."""
        is_glyph = ord(letter) in CONTROLS and not self._page.is_generated(index)
        if letter in _SPACES and not is_glyph:
            self._end_word(index)
        else:
            self._add_other(index, letter)

    def _end_word(self, index: int) -> None:
        """End the word where the page has a space."""
        now = self._now
        if now is None:
            return
        boxes, at = self._page.boxes(index, 0)
        # A space of PDFium's own making has no height; our own gap rule decides there.
        if boxes.uppers[at] != boxes.lowers[at]:
            now.closed = True
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
