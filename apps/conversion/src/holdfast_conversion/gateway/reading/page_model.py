"""What is found on a page, from the characters up: fragments, words, lines, blocks.

All lengths are points (1/72 inch). A `Box` is in the coordinates of the page as it is shown: the
origin is the upper left corner and y grows downwards. A `Fragment` is in its reading frame instead,
so that one set of rules serves text that is turned by a quarter, a half or three quarters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast_conversion.gateway.reading.characters import accented, is_accent
from holdfast_conversion.gateway.reading.placing import Boxes

WORD_GAP = 0.1
WIDEST_WORD_GAP = 0.35
"""Share of the type size above which a gap parts words whatever their characters are."""
STEP_BACK = 0.5
"""Share of the type size that a character may stand behind the end of the one before it."""
NEW_BASELINE = 0.3
"""Share of the type size by which a character may stand higher or lower than the one before."""
OVERHANG = 0.02
"""Share of the type size that ink reaches beyond the advance before it is worth a look."""


def word_gap(left: str, right: str) -> float:
    """Return the share of the type size above which a gap between two characters parts words.

    Ideographs and kana are often set apart for looks, and their words have no spaces between them.
    """
    wide = _is_ideograph(left) and _is_ideograph(right)
    return WIDEST_WORD_GAP if wide else WORD_GAP


def _is_ideograph(letter: str) -> bool:
    return "\u2e80" <= letter <= "\u9fff" or "\uff01" <= letter <= "\uffee"


Box = tuple[float, float, float, float]
"""A rectangle on the page as it is shown: x0, y0, x1 and y1 in points from its upper left corner.

A plain tuple, as every word has one.
"""


def box_around(boxes: Sequence[Box]) -> Box:
    """Return the smallest box around all of `boxes`."""
    if len(boxes) == 1:
        return boxes[0]
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def frame_of(box: Box, turn: int) -> tuple[float, float, float, float]:
    """Return start, upper, end and lower of `box` in the reading frame of `turn`."""
    x0, y0, x1, y1 = box
    if turn == 0:
        return x0, y0, x1, y1
    if turn == 1:
        return -y1, x0, -y0, x1
    if turn == 2:
        return -x1, -y1, -x0, -y0
    return y0, -x1, y1, -x0


def box_of(start: float, upper: float, end: float, lower: float, turn: int) -> Box:
    """Return the box with these sides in the reading frame of `turn`."""
    if turn == 0:
        return start, upper, end, lower
    if turn == 1:
        return upper, -end, lower, -start
    if turn == 2:
        return -end, -lower, -start, -upper
    return -lower, start, -upper, end


def is_likely_size(size: float, height: float) -> bool:
    """Say whether type of `size` may have characters of this height, both in points."""
    return 0.4 * height < size < 10_000


class Fragment:
    """Characters that touch: a word or a part of one, in its reading frame.

    `start` and `end` lie along the direction of reading, `upper` and `lower` across it; `turn` is
    the direction, in quarter turns anticlockwise; `size` is the type size in points; `closed` says
    that a space follows, so that nothing more belongs to its word.
    """

    __slots__ = ("closed", "end", "last", "lower", "size", "start", "text", "turn", "upper")

    def __init__(
        self,
        text: str,
        start: float,
        upper: float,
        end: float,
        lower: float,
        size: float,
        turn: int,
        closed: bool = False,
    ) -> None:
        self.text = text
        self.start = start
        self.upper = upper
        self.end = end
        self.lower = lower
        self.size = size
        self.turn = turn
        self.closed = closed
        self.last = (start, end, lower)
        """Start, end and lower of the last character."""

    def is_apart(self, start: float) -> bool:
        """Say whether a letter, not an ideograph, that begins at `start` is of another word."""
        return start - self.end >= WORD_GAP * self.size

    def is_last_glyph(self, start: float, end: float, lower: float) -> bool:
        """Say whether a box is that of the last character: one glyph for several letters."""
        return (start, end, lower) == self.last

    def extend(
        self, letter: str, start: float, upper: float, end: float, lower: float, pen: float
    ) -> None:
        """Add one more character with its box; `pen` is where the next one would begin.

        An accent that is printed over a letter becomes that letter's combining mark, and stands
        behind it even where the page draws it first.
        """
        last = self.text[-1]
        if letter.isascii() and last.isascii():
            self.text += letter  # most of what there is, and no accent
        elif is_accent(last) and self._is_over_last(start, end) and letter.isalpha():
            self.text = f"{self.text[:-1]}{accented(letter, last)}"
        elif is_accent(letter) and self._is_over_last(start, end) and last.isalpha():
            self.text = f"{self.text[:-1]}{accented(last, letter)}"
        else:
            self.text += letter
        self.start = min(self.start, start)
        self.upper = min(self.upper, upper)
        self.end = max(self.end, pen)
        self.lower = max(self.lower, lower)
        self.last = (start, end, lower)

    def add(self, letters: str, boxes: Boxes, at: int, stop: int, pen: float) -> None:
        """Add ASCII letters, whose boxes are those from `at` to `stop` of `boxes`.

        `pen` is where the next one would begin.
        """
        starts, uppers, _, lowers = boxes
        start, upper, lower = min(starts[at:stop]), min(uppers[at:stop]), max(lowers[at:stop])
        self.text += letters
        self.start = min(self.start, start)
        self.upper = min(self.upper, upper)
        self.end = pen
        self.lower = max(self.lower, lower)
        self.last = boxes.last(stop - 1)

    def overhangs(self, start: float, end: float, advance: float) -> bool:
        """Say whether a character reaches well beyond where it moves the pen."""
        return start + advance < end - OVERHANG * self.size

    def takes(self, letter: str, start: float, end: float, lower: float) -> bool:
        """Say whether a character with this box continues the fragment."""
        last_start, _, last_lower = self.last
        gap = start - self.end
        if gap >= word_gap(self.text[-1], letter) * self.size:
            return False
        if gap > -STEP_BACK * self.size and abs(lower - last_lower) < NEW_BASELINE * self.size:
            return True
        if self.is_last_glyph(start, end, lower):
            return True
        over = is_accent(letter) or is_accent(self.text[-1])
        return over and end > last_start - 0.1 * self.size

    def _is_over_last(self, start: float, end: float) -> bool:
        last_start, last_end, _ = self.last
        return abs((start + end) - (last_start + last_end)) < 0.5 * self.size

    def box(self) -> Box:
        """Return where it stands on the page as it is shown."""
        return box_of(self.start, self.upper, self.end, self.lower, self.turn)


class Word(NamedTuple):
    """Text without spaces, and where it stands."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Line:
    """Words in the order of reading; `size` is the type size of the most of it in points.

    `box` is around its words. `start`, `upper`, `end` and `lower` bound it in its reading frame,
    which `turn` names.
    """

    words: tuple[Word, ...]
    box: Box
    start: float
    upper: float
    end: float
    lower: float
    size: float
    turn: int


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together, from first to last."""

    lines: tuple[Line, ...]

    @property
    def box(self) -> Box:
        """Where it stands on the page as it is shown."""
        return box_around([line.box for line in self.lines])


@dataclass(frozen=True, slots=True)
class PdfPage:
    """One page; `width` and `height` are in points as it is shown, `rotation` in degrees.

    `readable` is False where the page is broken: it is there, and its content is not known.
    """

    number: int
    width: float
    height: float
    rotation: int
    readable: bool = True
    fragments: list[Fragment] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A bookmark: its `level` from 1, the number of the page it leads to if any, its title."""

    level: int
    page: int | None
    title: str
