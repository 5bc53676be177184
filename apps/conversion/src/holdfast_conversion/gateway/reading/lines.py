"""From fragments to lines of words.

A fragment joins the line whose end it stands beside at the same height. Where it touches that end
it continues the last word; where the gap is wider than the gaps within a column it starts a line of
its own, so that two columns never share one.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter

from holdfast_conversion.gateway.reading.characters import clean
from holdfast_conversion.gateway.reading.page_model import (
    WIDEST_WORD_GAP,
    Fragment,
    Line,
    PdfPage,
    Word,
    box_around,
    box_of,
    frame_of,
    word_gap,
)

_COLUMN_GAP = 1.6
"""Share of the type size above which a gap parts two columns and not two words."""
_OVERLAP_BACK = 0.6
_SAME_HEIGHT = 0.45
"""Share of the lower of two fragments that the other must cover for both to be on one line."""
_LEAST_HEIGHT = 0.01
"""Points that a fragment is taken to be high at the least."""
_LIKE_SIZE = 2.6
"""How many times larger the larger of two neighbours may be: a watermark joins no line."""
_MOST_SHELVES = 64
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


def lines_of(page: PdfPage) -> list[Line]:
    """Return the lines on `page`, in no order that means anything yet."""
    by_turn: dict[int, list[Fragment]] = defaultdict(list)
    for fragment in page.fragments:
        by_turn[fragment.turn].append(fragment)
    found: list[Line] = []
    for turn in sorted(by_turn):
        for row in _rows(_shown(by_turn[turn], page, turn)):
            line = _line(row, turn)
            if line is not None:
                found.append(line)
    return found


def _shown(fragments: list[Fragment], page: PdfPage, turn: int) -> list[Fragment]:
    """Return those of `fragments` that are on the page, at least in part."""
    start, upper, end, lower = frame_of((0.0, 0.0, page.width, page.height), turn)
    return [
        one
        for one in fragments
        if one.end >= start and one.lower >= upper and one.start <= end and one.upper <= lower
    ]


class _GrowingLine:
    """A line that still grows at its end; `shelves` are those of its last fragment."""

    __slots__ = ("fragments", "last", "shelves")

    def __init__(self, first: Fragment, shelves: range) -> None:
        self.fragments = [first]
        self.last = first
        self.shelves = shelves


class _Shelves:
    """Growing lines by the height of their ends: each is on all shelves that its end touches."""

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        heights = sorted(one.lower - one.upper for one in fragments)
        self._step = max(1.0, heights[len(heights) // 2])
        self._lines: dict[int, list[_GrowingLine]] = defaultdict(list)
        self._known: dict[tuple[float, float], range] = {}

    def of(self, fragment: Fragment) -> range:
        # The words of a line have the same height, and so the same shelves.
        height = fragment.upper, fragment.lower
        found = self._known.get(height)
        if found is None:
            first, last = (int(side // self._step) for side in height)
            found = self._known[height] = range(first, min(last, first + _MOST_SHELVES) + 1)
        return found

    def put(self, line: _GrowingLine) -> None:
        for shelf in line.shelves:
            self._lines[shelf].append(line)

    def remove(self, line: _GrowingLine) -> None:
        for shelf in line.shelves:
            self._lines[shelf].remove(line)

    def nearest(self, fragment: Fragment, shelves: range) -> _GrowingLine | None:
        """Return the line that `fragment` continues, the nearest of several."""
        best, best_gap = None, _COLUMN_GAP * _LIKE_SIZE * fragment.size
        start = fragment.start
        for shelf in shelves:
            for line in self._lines[shelf]:
                # Most are too far away for a closer look, or were looked at on another shelf.
                if line is best or abs(start - line.last.end) >= best_gap:
                    continue
                gap = _gap_between(line.last, fragment)
                if gap is not None:
                    best, best_gap = line, gap
        return best


def _rows(fragments: Sequence[Fragment]) -> list[list[Fragment]]:
    """Group fragments into rows; each looks only at rows that end near its own height."""
    if not fragments:
        return []
    shelves = _Shelves(fragments)
    lines: list[_GrowingLine] = []
    for fragment in sorted(fragments, key=attrgetter("start", "upper")):
        touched = shelves.of(fragment)
        line = shelves.nearest(fragment, touched)
        if line is None:
            line = _GrowingLine(fragment, touched)
            lines.append(line)
            shelves.put(line)
            continue
        line.fragments.append(fragment)
        line.last = fragment
        if line.shelves != touched:
            shelves.remove(line)
            line.shelves = touched
            shelves.put(line)
    return [line.fragments for line in lines]


def _gap_between(left: Fragment, right: Fragment) -> float | None:
    """Return how far `right` stands behind `left` on one line, or None if on none."""
    size, other = left.size, right.size
    if size != other:
        size, other = max(size, other), min(size, other)
        if size > _LIKE_SIZE * other:
            return None
    gap = right.start - left.end
    if not -_OVERLAP_BACK * size < gap < _COLUMN_GAP * size:
        return None
    height = left.lower - left.upper
    if left.upper == right.upper and left.lower == right.lower and height > _LEAST_HEIGHT:
        return abs(gap)  # as most words of a line are: each covers the other
    shared = min(left.lower, right.lower) - max(left.upper, right.upper)
    lower_of_two = min(height, right.lower - right.upper)
    if shared < _SAME_HEIGHT * max(lower_of_two, _LEAST_HEIGHT):
        return None
    return abs(gap)


def _line(fragments: list[Fragment], turn: int) -> Line | None:
    """Return the line of `fragments`, which stand in the order of their starts."""
    texts = [one.text for one in fragments]
    backwards = _is_right_to_left("".join(texts))
    groups = _groups(fragments)
    words = []
    for group in reversed(groups) if backwards else groups:
        if len(group) == 1:
            text, box = group[0].text, group[0].box()
        else:
            text = "".join([one.text for one in (reversed(group) if backwards else group)])
            box = box_around([one.box() for one in group])
        text = clean(text)
        if text:
            words.append(Word(text, box))
    if not words:
        return None
    lengths = [len(text) for text in texts]
    start, upper = fragments[0].start, min([one.upper for one in fragments])
    end, lower = max([one.end for one in fragments]), max([one.lower for one in fragments])
    if len(words) == len(groups):
        box = box_of(start, upper, end, lower, turn)
    else:
        box = box_around([word.box for word in words])
    size = fragments[lengths.index(max(lengths))].size
    return Line(tuple(words), box, start, upper, end, lower, size, turn)


def _groups(fragments: list[Fragment]) -> list[list[Fragment]]:
    """Group the fragments of a line into words."""
    groups = [[fragments[0]]]
    for left, right in pairwise(fragments):
        gap = right.start - left.end
        if gap < WIDEST_WORD_GAP * left.size and not _is_apart(left, right, gap):
            groups[-1].append(right)
        else:
            groups.append([right])
    return groups


def _is_apart(left: Fragment, right: Fragment, gap: float) -> bool:
    if _is_space_between(left, right):
        return True
    return gap >= word_gap(left.text[-1], right.text[0]) * min(left.size, right.size)


def _is_space_between(left: Fragment, right: Fragment) -> bool:
    """Say whether the page has a space there; it follows a fragment on the side it is read to."""
    if left.closed and not _is_right_to_left(left.text):
        return True
    return right.closed and _is_right_to_left(right.text)


def _is_right_to_left(text: str) -> bool:
    if text.isascii():
        return False
    kinds = [unicodedata.bidirectional(letter) for letter in text]
    backwards = sum(kind in _RIGHT_TO_LEFT for kind in kinds)
    return backwards > kinds.count("L")
