"""The lines that a page shows once, after a form: the address names them by a key."""

from holdfast.http.api_errors import TWIN_LINE
from holdfast.http.pages.renderer import Renderer

_NOTES = {
    "retried": "Back in the queue; its attempts are counted from one.",
    "expedited": "Its next attempt begins now.",
    "paused": "It waits until what it needs is back; then it begins by itself.",
    "in-place": TWIN_LINE,
    "cancelled": "Cancelled.",
    "stopping": "Asked to stop.",
    "nothing-selected": "Select what to remove first.",
    "nothing-ready": "None of these has a result to download.",
}
_COUNTED = {
    "removed-many": ("{} removed.", "{} still being stopped: remove again in a moment."),
    "retried-many": ("{} back in the queue.", "{} cannot be retried."),
}
"""What was done to how many, and what was not."""
_MOST = 1_000_000


def note_line(renderer: Renderer, key: str | None, done: int = 0, left: int = 0) -> str:
    """Return the line for `key`; `done` and `left` are counts of what it speaks of."""
    if not key:
        return ""
    if key in _COUNTED:
        counts = zip(_COUNTED[key], (done, left), strict=True)
        lines = [line.format(renderer.count(count)) for line, count in counts if count > 0]
        return " ".join(lines) or "Nothing was changed."
    known = renderer.state.engine.registry.errors.get(key)
    if known is not None:
        return known.message
    return _NOTES.get(key) or renderer.note(key)


def count_in(text: str | None) -> int:
    """Return a count that stands in an address; 0 for anything else."""
    number = int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else 0
    return min(number, _MOST)
