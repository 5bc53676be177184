"""The geometry of charts; templates draw them as SVG, each with its figures in a table beside it.

Lengths are units of the drawing, whose width is `WIDTH`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH = 480.0
BAR_HEIGHT = 20.0
BAR_GAP = 12.0
LABEL_WIDTH = 164.0
VALUE_WIDTH = 112.0
COLUMN_HEIGHT = 64.0
_TRACK = WIDTH - LABEL_WIDTH - VALUE_WIDTH


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: where it lies, its name and its value in words."""

    label: str
    value: str
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars from a common line.

    Args:
        height: of the drawing.
        bars: from top to bottom.
        mark: where a line for a target stands; None without one.
        start, end: the ends of the scale in words; "" where the values say enough.
        label_width, track_width: where the bars begin, and the length of the longest.
    """

    height: float
    bars: tuple[Bar, ...]
    mark: float | None = None
    start: str = ""
    end: str = ""
    label_width: float = LABEL_WIDTH
    track_width: float = _TRACK


@dataclass(frozen=True, slots=True)
class Column:
    """One column, which stands on the ground line of the drawing."""

    label: str
    count: int
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Columns from left to right; `most` is the count of the highest."""

    columns: tuple[Column, ...]
    most: int


def counts_chart(counts: Mapping[str, int]) -> BarChart:
    """Return bars whose lengths are the counts, the longest over the whole width."""
    most = max(counts.values(), default=0) or 1
    bars = [
        _bar(place, label, f"{count:,}", count / most)
        for place, (label, count) in enumerate(counts.items())
    ]
    return BarChart(_height(len(bars)), tuple(bars))


def shares_chart(shares: Mapping[str, float], target: float) -> BarChart:
    """Return bars for shares from 0 to 1, and a line at `target`.

    Where every share is above 90 % the scale begins there: close to a target of 99.5 % a tenth of
    a per cent must be seen.
    """
    low = 0.9 if shares and min(*shares.values(), target) >= 0.9 else 0.0
    bars = [
        _bar(place, label, per_cent(share), _place(share, low))
        for place, (label, share) in enumerate(shares.items())
    ]
    return BarChart(
        _height(len(bars)),
        tuple(bars),
        mark=round(LABEL_WIDTH + _TRACK * _place(target, low), 1),
        start=f"{low * 100:.0f} %",
        end="100 %",
    )


def durations_chart(rows: Sequence[tuple[str, float, str]]) -> BarChart:
    """Return bars for `(label, seconds, words)`, the longest over the whole width."""
    most = max((seconds for _, seconds, _ in rows), default=0.0) or 1.0
    bars = [
        _bar(place, label, words, seconds / most)
        for place, (label, seconds, words) in enumerate(rows)
    ]
    return BarChart(_height(len(bars)), tuple(bars))


def columns_chart(columns: Sequence[tuple[str, int]]) -> ColumnChart:
    """Return columns for `(label, count)`, the highest over the whole height."""
    most = max((count for _, count in columns), default=0) or 1
    step = WIDTH / max(1, len(columns))
    return ColumnChart(
        tuple(
            Column(
                label,
                count,
                x=round(place * step, 1),
                width=round(step * 0.75, 1),
                height=round(max(2.0, COLUMN_HEIGHT * count / most) if count else 0.0, 1),
            )
            for place, (label, count) in enumerate(columns)
        ),
        most=max((count for _, count in columns), default=0),
    )


def per_cent(share: float) -> str:
    """Return a share in per cent, rounded down so that only all is called 100 %."""
    return f"{int(share * 10_000) / 100:.4g} %"


def _place(share: float, low: float) -> float:
    return max(0.0, min(1.0, (share - low) / (1.0 - low)))


def _bar(place: int, label: str, value: str, share: float) -> Bar:
    # A count that is not zero is seen, however small beside the others.
    width = max(2.0, _TRACK * share) if share > 0 else 0.0
    return Bar(label, value, place * (BAR_HEIGHT + BAR_GAP), round(width, 1))


def _height(bars: int) -> float:
    return max(1, bars) * (BAR_HEIGHT + BAR_GAP) - BAR_GAP
