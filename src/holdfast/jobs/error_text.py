"""Turn exceptions into the one short line that jobs, attempts and logs keep of them."""

from holdfast.errors import HoldfastError

_LONGEST_MESSAGE = 500
"""Characters that an error's line may have."""


def one_line(error: BaseException) -> str:
    """Return an exception as one short line that any store can keep."""
    try:
        text = str(error)
    except Exception:
        text = "its message could not be made"
    if not isinstance(error, HoldfastError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return clean(text) or type(error).__name__


def clean(text: str) -> str:
    """Return `text` on one line, without what a database refuses, and not too long."""
    line = " ".join(text[: 4 * _LONGEST_MESSAGE].replace("\0", " ").split())
    line = line.encode("utf-8", "replace").decode("utf-8")
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 1] + "…"
