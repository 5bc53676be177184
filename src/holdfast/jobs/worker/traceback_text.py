"""The traceback of a handler's exception as text: bounded, and redacted by the user's function."""

import logging
import traceback
from collections.abc import Callable
from types import TracebackType

from holdfast.resilience.error_attributes import UNREADABLE

MOST_BYTES = 16 * 1024
"""Most bytes of a traceback in UTF-8; of a longer one the middle is left out."""

Redact = Callable[[str], str]
"""Takes the text of a traceback and returns what may be kept of it; "" for nothing."""

_OWN = "holdfast.jobs."
_log = logging.getLogger("holdfast.worker")


class Tracebacks:
    """Format tracebacks as a worker's options say.

    Args:
        choice: True keeps them, False does not, a function is given the text and returns what is
            kept. If it raises, the traceback is not kept.
    """

    def __init__(self, choice: bool | Redact) -> None:
        self._kept = choice is not False
        self._redact = None if isinstance(choice, bool) else choice
        self.whole = choice is True
        """Whether the exception itself may be given to log handlers, which show all of it."""

    def text_of(self, error: BaseException | None, from_child: str | None = None) -> str | None:
        """Return the traceback of `error`, or the text that a child process sent; None for none."""
        if not self._kept:
            return None
        text = from_child
        if text is None and error is not None:
            text = format_traceback(error)
        if text is None or self._redact is None:
            return text
        try:
            return shorten(str(self._redact(text))) or None
        except Exception:
            _log.exception("a traceback is not kept: the function that redacts it failed")
            return None


def format_traceback(error: BaseException) -> str | None:
    """Return the traceback of `error` from the handler's first line on; None if it has none."""
    try:
        start = _first_foreign(error.__traceback__)
        if start is None:
            return None
        lines = traceback.format_exception(type(error), error, start)
        return shorten("".join(lines).rstrip("\n"))
    except UNREADABLE:
        # Some method of the exception raises, or it is nested too deeply.
        return None


def shorten(text: str, most_bytes: int = MOST_BYTES) -> str:
    """Return `text` in at most `most_bytes` bytes of UTF-8: its beginning and its end."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most_bytes:
        return text
    gap = f"\n... {len(data) - most_bytes} bytes and more are left out ...\n"
    half = (most_bytes - len(gap)) // 2
    return data[:half].decode("utf-8", "ignore") + gap + data[-half:].decode("utf-8", "ignore")


def _first_foreign(start: TracebackType | None) -> TracebackType | None:
    """Skip the frames of the worker, which every traceback begins with."""
    while start is not None and start.tb_next is not None:
        if not str(start.tb_frame.f_globals.get("__name__", "")).startswith(_OWN):
            break
        start = start.tb_next
    return start
