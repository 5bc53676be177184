"""Count how often in a row a file's conversion was killed, to tell a bad file from bad luck."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast_conversion.gateway.rejections import Reason, Rejection

_MOST_IN_A_ROW = 3
"""When memory is short, Linux kills any process, so one kill says nothing about a file. Three in a
row mean that the file itself exhausts the memory; a caller's three attempts reach that."""
_MOST_FILES = 1024


class KillCounter:
    """Count by fingerprint; the files that were killed longest ago are forgotten first."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    @contextmanager
    def counted(self, fingerprint: str) -> Iterator[None]:
        """Count the conversion in the block if it is killed; one that comes to its end clears it.

        Raises:
            Rejection: as the block does, but `KILLED_AGAIN` where it was killed too often.
        """
        try:
            yield
        except Rejection as refusal:
            if refusal.reason.is_final:
                self._counts.pop(fingerprint, None)
            if refusal.reason is not Reason.KILLED:
                raise
            count = self._counts.pop(fingerprint, 0) + 1
            self._counts[fingerprint] = count
            if len(self._counts) > _MOST_FILES:
                self._counts.popitem(last=False)
            if count >= _MOST_IN_A_ROW:
                raise Rejection(Reason.KILLED_AGAIN, f"{count} times") from None
            raise
        self._counts.pop(fingerprint, None)
