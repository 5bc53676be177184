"""Where characters stand: from PDFium's boxes to those of a reader who looks along the text."""

import math
from typing import NamedTuple


class Boxes(NamedTuple):
    """The boxes of several characters, one list for each side, all in one reading frame.

    The text runs along the first axis, from start to end, and lines follow each other along the
    second, from upper to lower.
    """

    starts: list[float]
    uppers: list[float]
    ends: list[float]
    lowers: list[float]

    def at(self, index: int) -> tuple[float, float, float, float]:
        """Return start, upper, end and lower of one character."""
        return self.starts[index], self.uppers[index], self.ends[index], self.lowers[index]

    def last(self, index: int) -> tuple[float, float, float]:
        """Return start, end and lower of one character, as a fragment keeps those of its last."""
        return self.starts[index], self.ends[index], self.lowers[index]


class Placing:
    """Turn PDF coordinates into those of a reader who looks along the text.

    `left`, `top`, `width` and `height` are those of the page before it is turned, in points;
    `page_turns` counts the quarter turns, clockwise, by which it is shown. The `turn` of a text
    counts the quarter turns, anticlockwise, by which it is turned on the page as it is shown.
    """

    def __init__(
        self, left: float, top: float, width: float, height: float, page_turns: int
    ) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.page_turns = page_turns

    def turn_of(self, a: float, b: float) -> int:
        """Return the turn of a text; `a` and `b` are the first elements of its matrix."""
        quarter = math.atan2(b, a) / (math.pi / 2)
        return (round(quarter) - self.page_turns) % 4 if math.isfinite(quarter) else 0

    def frame(self, sides: list[list[float]], turn: int) -> Boxes:
        """Return boxes in the reading frame of `turn`.

        `sides` holds those of PDFium: the left ones, the top, the right and the bottom ones.
        """
        lefts, tops, rights, bottoms = sides
        x0, x1 = _minus(lefts, self.left), _minus(rights, self.left)
        y0, y1 = _from(self.top, tops), _from(self.top, bottoms)
        if self.page_turns == 1:
            x0, y0, x1, y1 = _from(self.height, y1), x0, _from(self.height, y0), x1
        elif self.page_turns == 2:
            x0, x1 = _from(self.width, x1), _from(self.width, x0)
            y0, y1 = _from(self.height, y1), _from(self.height, y0)
        elif self.page_turns == 3:
            x0, y0, x1, y1 = y0, _from(self.width, x1), y1, _from(self.width, x0)
        if turn == 0:
            return Boxes(x0, y0, x1, y1)
        if turn == 1:
            return Boxes(_from(0.0, y1), x0, _from(0.0, y0), x1)
        if turn == 2:
            return Boxes(_from(0.0, x1), _from(0.0, y1), _from(0.0, x0), _from(0.0, y0))
        return Boxes(y0, _from(0.0, x1), y1, _from(0.0, x0))


def _minus(values: list[float], origin: float) -> list[float]:
    return [value - origin for value in values] if origin else values


def _from(origin: float, values: list[float]) -> list[float]:
    return [origin - value for value in values]
