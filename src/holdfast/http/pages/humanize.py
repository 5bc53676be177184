"""Sizes and times as people say them. Times are epoch seconds, durations are seconds."""

import math
from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def size(count: int) -> str:
    """Return a number of bytes: 812 bytes, 12.3 kB, 4.56 MB, 1.5 GB."""
    if count < 1024:
        return "1 byte" if count == 1 else f"{count} bytes"
    if count < 1024**2:
        return f"{_short(count / 1024)} kB"
    if count < 1024**3:
        return f"{_short(count / 1024**2)} MB"
    return f"{_short(count / 1024**3)} GB"


def duration(seconds: float) -> str:
    """Return a duration: 320 ms, 1.2 s, 2 min 5 s, 3 h 4 min."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    return countdown(seconds)


def countdown(seconds: float) -> str:
    """Return the time that is left, in whole seconds rounded up; the browser does the same."""
    left = max(0, math.ceil(seconds))
    if left < _MINUTE:
        return f"{left} s"
    if left < _HOUR:
        return f"{left // _MINUTE} min {left % _MINUTE} s"
    return f"{left // _HOUR} h {left % _HOUR // _MINUTE} min"


def rough(seconds: float) -> str:
    """Return a length of time in its largest unit: 6 days, 23 h, 5 min; the browser does the same.

    Rounded down: what is kept for so long is kept at least as long.
    """
    left = max(0, int(seconds))
    if left >= 2 * _DAY:
        return f"{left // _DAY} days"
    if left >= _HOUR:
        return f"{left // _HOUR} h"
    return f"{left // _MINUTE} min" if left >= _MINUTE else f"{left} s"


def ago(moment: float, now: float) -> str:
    """Return how long ago `moment` was; the browser does the same."""
    passed = max(0.0, now - moment)
    if passed < _MINUTE:
        return "just now"
    if passed < _HOUR:
        return f"{int(passed // _MINUTE)} min ago"
    if passed < _DAY:
        return f"{int(passed // _HOUR)} h ago"
    days = int(passed // _DAY)
    return "yesterday" if days == 1 else f"{days} days ago"


def iso(moment: float) -> str:
    """Return a moment in ISO 8601 and UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def time_of_day(moment: float) -> str:
    """Return the time of a moment's day, in UTC; the browser turns it into its own time."""
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M UTC")


def clock_time(moment: float) -> str:
    """Return a moment for people, in UTC; the browser turns it into its own time."""
    return datetime.fromtimestamp(moment, UTC).strftime("%d %b %Y, %H:%M:%S UTC")


def _short(number: float) -> str:
    """Return two or three figures, without a zero after the point; the browser does the same."""
    return f"{number:.0f}" if number >= 99.95 else f"{number:.{3 if number >= 10 else 2}g}"
