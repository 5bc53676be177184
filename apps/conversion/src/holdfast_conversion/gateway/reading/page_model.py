"""What is found on a page, from the characters up: fragments, words, lines, blocks.

All lengths are points (1/72 inch). A `Box` is in the coordinates of the page as it is shown: the
origin is the upper left corner and y grows downwards. A `Fragment` is in its reading frame instead,
so that one set of rules serves text that is turned by a quarter, a half or three quarters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast_conversion.gateway.reading.characters import accented, is_accent

_WORD_GAP = 0.1
_WORD_GAP_OF_IDEOGRAPHS = 0.35
_STEP_BACK = 0.5
"""Share of the type size that a character may stand behind the end of the one before it."""
_NEW_BASELINE = 0.3
"""Share of the type size by which a character may stand higher or lower than the one before."""


def word_gap(left: str, right: str) -> float:
    """Return the share of the type size above which a gap between two characters parts words.

    Ideographs and kana are often set apart for looks, and their words have no spaces between them.
    """
    wide = _is_ideograph(left) and _is_ideograph(right)
    return _WORD_GAP_OF_IDEOGRAPHS if wide else _WORD_GAP


def _is_ideograph(letter: str) -> bool:
    return "\u2e80" <= letter <= "\u9fff" or "\uff01" <= letter <= "\uffee"


class Box(NamedTuple):
    """A rectangle on the page as it is shown, in points from its upper left corner."""

    x0: float
    y0: float
    x1: float
    y1: float


def box_around(boxes: Sequence[Box]) -> Box:
    """Return the smallest box around all of `boxes`."""
    return Box(
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
    )


@dataclass(slots=True)
class Fragment:
    """Characters that touch: a word or a part of one, in its reading frame.

    `start` and `end` lie along the direction of reading, `upper` and `lower` across it; `turn` is
    the direction, in quarter turns anticlockwise; `size` is the type size in points; `closed` says
    that a space follows, so that nothing more belongs to its word.
    """

    text: str
    start: float
    upper: float
    end: float
    lower: float
    size: float
    turn: int
    closed: bool = False
    last: tuple[float, float, float] = field(init=False)
    """Start, end and lower of the last character."""

    def __post_init__(self) -> None:
        self.last = (self.start, self.end, self.lower)

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

    def takes(self, letter: str, start: float, end: float, lower: float) -> bool:
        """Say whether a character with this box continues the fragment."""
        last_start, _, last_lower = self.last
        gap = start - self.end
        if gap >= word_gap(self.text[-1], letter) * self.size:
            return False
        if gap > -_STEP_BACK * self.size and abs(lower - last_lower) < _NEW_BASELINE * self.size:
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
        start, upper, end, lower = self.start, self.upper, self.end, self.lower
        if self.turn == 0:
            return Box(start, upper, end, lower)
        if self.turn == 1:
            return Box(upper, -end, lower, -start)
        if self.turn == 2:
            return Box(-end, -lower, -start, -upper)
        return Box(-lower, start, -upper, end)


@dataclass(frozen=True, slots=True)
class Word:
    """Text without spaces, and where it stands."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Line:
    """Words in the order of reading; `size` is the type size of the most of it in points.

    `start`, `upper`, `end` and `lower` bound it in its reading frame, which `turn` names.
    """

    words: tuple[Word, ...]
    start: float
    upper: float
    end: float
    lower: float
    size: float
    turn: int

    @property
    def box(self) -> Box:
        """Where it stands on the page as it is shown."""
        return box_around([word.box for word in self.words])


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
