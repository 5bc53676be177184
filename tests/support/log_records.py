"""Read what a service has logged."""

import re
from collections.abc import Iterable
from itertools import pairwise

_RECORD = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ ", re.MULTILINE)
_DEAD_LETTER = " is a dead letter "


def unexpected_tracebacks(lines: Iterable[str]) -> list[str]:
    """Return the records with a traceback, except those of dead letters, which always have one."""
    text = "\n".join(lines)
    starts = [0, *(found.start() for found in _RECORD.finditer(text)), len(text)]
    records = [text[start:end] for start, end in pairwise(starts)]
    return [
        record
        for record in records
        if "Traceback" in record and _DEAD_LETTER not in record.partition("\n")[0]
    ]
