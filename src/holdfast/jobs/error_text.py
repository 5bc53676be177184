"""Format exceptions as the one line that jobs, attempts and logs keep."""

from holdfast.errors import HoldfastError
from holdfast.resilience.error_attributes import UNREADABLE, is_a, name_of

_LONGEST_MESSAGE = 500
"""Most characters of an error message."""


def one_line(error: BaseException) -> str:
    """Format `error` as one short line that any store accepts."""
    name = name_of(type(error))
    try:
        text = str(error)
    except UNREADABLE:
        text = "its str() raised an error"
    if not is_a(error, HoldfastError):
        text = f"{name}: {text}" if text else name
    return clean(text) or name


def clean(text: str) -> str:
    """Return `text` on one line, shortened, without characters that a database refuses."""
    line = " ".join(text[: 4 * _LONGEST_MESSAGE].replace("\0", " ").split())
    line = line.encode("utf-8", "replace").decode("utf-8")
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 1] + "…"
