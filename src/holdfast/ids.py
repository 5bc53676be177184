"""The ids of jobs, where the caller gives none, and of messages: version 7 UUIDs, 32 hex digits.

48 bits are the time in milliseconds, so a database appends ids to its index in order; 74 bits are
random for each id, so that knowing one does not help to guess another.
"""

import os


def new_ids(count: int, wall: float) -> list[str]:
    """Return `count` new ids; `wall` is the time in epoch seconds."""
    time = f"{int(wall * 1000):012x}7"
    digits = os.urandom(10 * count).hex()
    return [
        f"{time}{digits[at : at + 3]}{_VARIANT[digits[at + 3]]}{digits[at + 4 : at + 19]}"
        for at in range(0, 20 * count, 20)
    ]


# The first two bits of this digit say that it is a UUID of the usual kind; the others stay random.
_VARIANT = {f"{digit:x}": "89ab"[digit % 4] for digit in range(16)}
