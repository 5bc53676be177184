"""Cursors: the place in a list to go on from, as text that a client hands back."""

import base64
import json

NEWEST = 2**62
"""A sequence that no row reaches."""


def encode(*place: float) -> str:
    """Return `place`, the columns a list is ordered by, as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode(cursor: str, length: int) -> list[float]:
    """Return the place of `length` columns in `cursor`.

    Raises:
        ValueError: it is no cursor of such a list.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        place = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        numbers = all(isinstance(part, int | float) and abs(part) < NEWEST for part in place)
        if numbers and len(place) == length:
            return list(place)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"not a cursor of this list: {cursor!r}")
