"""From fragments to lines of words.

A fragment joins the line whose end it stands beside at the same height. Where it touches that end
it continues the last word; where the gap is wider than the gaps within a column it starts a line of
its own, so that two columns never share one.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from holdfast_conversion.gateway.reading.characters import clean
from holdfast_conversion.gateway.reading.page_model import (
    Box,
    Fragment,
    Line,
    PdfPage,
    Word,
    box_around,
    word_gap,
)

_COLUMN_GAP = 1.6
"""Share of the type size above which a gap parts two columns and not two words."""
_OVERLAP_BACK = 0.6
_SAME_HEIGHT = 0.45
"""Share of the lower of two fragments that the other must cover for both to be on one line."""
_LIKE_SIZE = 2.6
"""How many times larger the larger of two neighbours may be: a watermark joins no line."""
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


def lines_of(page: PdfPage) -> list[Line]:
    """Return the lines on `page`, in no order that means anything yet."""
    by_turn: dict[int, list[Fragment]] = defaultdict(list)
    for fragment in page.fragments:
        if _is_on(page, fragment.box()):
            by_turn[fragment.turn].append(fragment)
    found: list[Line] = []
    for turn in sorted(by_turn):
        for row in _rows(by_turn[turn]):
            line = _line(row, turn)
            if line is not None:
                found.append(line)
    return found


def _is_on(page: PdfPage, box: Box) -> bool:
    return box.x1 >= 0 and box.y1 >= 0 and box.x0 <= page.width and box.y0 <= page.height


class _GrowingLine:
    """A line that still grows at its end."""

    __slots__ = ("fragments", "last")

    def __init__(self, first: Fragment) -> None:
        self.fragments = [first]
        self.last = first


def _rows(fragments: Sequence[Fragment]) -> Iterable[list[Fragment]]:
    """Group fragments into rows; each looks only at rows that end near its own height."""
    rows: list[_GrowingLine] = []
    near: dict[int, list[_GrowingLine]] = defaultdict(list)
    step = _shelf_height(fragments)
    for fragment in sorted(fragments, key=lambda one: (one.start, one.upper)):
        shelves = _shelves(fragment, step)
        best, best_gap = None, 0.0
        seen: set[int] = set()
        for shelf in shelves:
            for row in near[shelf]:
                if id(row) in seen:
                    continue
                seen.add(id(row))
                gap = _gap_between(row.last, fragment)
                if gap is not None and (best is None or gap < best_gap):
                    best, best_gap = row, gap
        if best is None:
            best = _GrowingLine(fragment)
            rows.append(best)
        else:
            for shelf in _shelves(best.last, step):
                near[shelf] = [row for row in near[shelf] if row is not best]
            best.fragments.append(fragment)
            best.last = fragment
        for shelf in shelves:
            near[shelf].append(best)
    return [row.fragments for row in rows]


def _shelf_height(fragments: Sequence[Fragment]) -> float:
    heights = sorted(one.lower - one.upper for one in fragments)
    return max(1.0, heights[len(heights) // 2])


_MOST_SHELVES = 64


def _shelves(fragment: Fragment, step: float) -> range:
    first, last = int(fragment.upper // step), int(fragment.lower // step)
    return range(first, min(last, first + _MOST_SHELVES) + 1)


def _gap_between(left: Fragment, right: Fragment) -> float | None:
    """Return how far `right` stands behind `left` on one line, or None if on none."""
    size = max(left.size, right.size)
    if size > _LIKE_SIZE * min(left.size, right.size):
        return None
    gap = right.start - left.end
    if not -_OVERLAP_BACK * size < gap < _COLUMN_GAP * size:
        return None
    shared = min(left.lower, right.lower) - max(left.upper, right.upper)
    lower_of_two = min(left.lower - left.upper, right.lower - right.upper)
    if shared < _SAME_HEIGHT * max(lower_of_two, 0.01):
        return None
    return abs(gap)


def _line(fragments: list[Fragment], turn: int) -> Line | None:
    groups = [[fragments[0]]]
    for left, right in pairwise(fragments):
        gap = word_gap(left.text[-1], right.text[0]) * min(left.size, right.size)
        if not _is_space_between(left, right) and right.start - left.end < gap:
            groups[-1].append(right)
        else:
            groups.append([right])
    backwards = _is_right_to_left(fragments)
    words = []
    for group in reversed(groups) if backwards else groups:
        text = clean("".join(one.text for one in (reversed(group) if backwards else group)))
        if text:
            words.append(Word(text, box_around([one.box() for one in group])))
    if not words:
        return None
    return Line(
        tuple(words),
        start=min(one.start for one in fragments),
        upper=min(one.upper for one in fragments),
        end=max(one.end for one in fragments),
        lower=max(one.lower for one in fragments),
        size=max(fragments, key=lambda one: len(one.text)).size,
        turn=turn,
    )


def _is_space_between(left: Fragment, right: Fragment) -> bool:
    """Say whether the page has a space there; it follows a fragment on the side it is read to."""
    if left.closed and not _is_right_to_left([left]):
        return True
    return right.closed and _is_right_to_left([right])


def _is_right_to_left(fragments: list[Fragment]) -> bool:
    text = "".join(one.text for one in fragments)
    if text.isascii():
        return False
    kinds = [unicodedata.bidirectional(letter) for letter in text]
    backwards = sum(kind in _RIGHT_TO_LEFT for kind in kinds)
    return backwards > kinds.count("L")
