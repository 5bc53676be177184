"""What server and child agree on: the mappings, the mark of a PDF, and what is too much."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast_conversion.gateway.rejections import Reason, Rejection

MAGIC = b"%PDF-"
MAGIC_WITHIN = 1024
"""Bytes at the start of a file within which `MAGIC` must stand, as readers of PDF agree."""


class Mapping(StrEnum):
    """Name a way to turn a PDF into XML."""

    LAYOUT = "layout"
    TEXT = "text"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of a document is converted at the most: `pages`, and `output_bytes` of XML."""

    pages: int = 5_000
    output_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PagesRead:
    """What one call read: how many `pages` the whole document has, and if any was `readable`."""

    pages: int
    readable: bool

    def check_readable(self) -> None:
        """Refuse a document that was read without finding a readable page.

        Raises:
            Rejection: there was none.
        """
        if not self.readable:
            raise Rejection(Reason.DAMAGED, "no readable page")


def check_magic(head: bytes) -> None:
    """Look for the mark of a PDF in the first bytes of a file.

    Raises:
        Rejection: there is nothing, or no mark.
    """
    if not head:
        raise Rejection(Reason.EMPTY)
    if MAGIC not in head[:MAGIC_WITHIN]:
        raise Rejection(Reason.NOT_PDF)
