"""Cursors: the position in a list to go on from, as text that a client sends back."""

import base64
import json

NEWEST = 2**62
"""A sequence that no row reaches."""


def encode(*position: float) -> str:
    """Return `position`, the columns a list is ordered by, as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode(cursor: str, length: int) -> list[float]:
    """Return the position of `length` columns in `cursor`.

    Raises:
        ValueError: it is no cursor of such a list.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        position = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        numbers = all(isinstance(part, int | float) and abs(part) < NEWEST for part in position)
        if numbers and len(position) == length:
            return list(position)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"not a cursor of this list: {cursor!r}")
