"""Format exceptions as the one line that jobs, attempts and logs keep."""

from holdfast.errors import HoldfastError

_LONGEST_MESSAGE = 500
"""Most characters of an error message."""


def one_line(error: BaseException) -> str:
    """Format `error` as one short line that any store accepts."""
    try:
        text = str(error)
    except Exception:
        text = "its str() raised an error"
    if not isinstance(error, HoldfastError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return clean(text) or type(error).__name__


def clean(text: str) -> str:
    """Return `text` on one line, shortened, without characters that a database refuses."""
    line = " ".join(text[: 4 * _LONGEST_MESSAGE].replace("\0", " ").split())
    line = line.encode("utf-8", "replace").decode("utf-8")
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 1] + "…"
