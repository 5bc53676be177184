"""The worker's side of extraction: bytes in, text out, whatever the bytes do to their reader.

HTML, PDF and DOCX are parsed in child processes that have given up files, sockets and programs and
have limits on memory, time and output; a file that breaks its reader is refused, and nothing else
suffers. The job itself is not isolated, because it needs the database and the network.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from holdfast import Clock
from holdfast.children import (
    MEGABYTE,
    ChildDied,
    ChildFailed,
    ChildLimits,
    ChildProcess,
    ConfinedFunction,
    Death,
)
from holdfast.errors import ERRORS, ErrorCode, HoldfastError, Permanent, error_code
from holdfast_ingestion.error_codes import NOTHING_TO_READ
from holdfast_ingestion.extraction.plain_text import (
    decode,
    html_charset,
    markdown_title,
    tidy,
    too_long_line,
)
from holdfast_ingestion.formats import Format

_log = logging.getLogger("holdfast.ingestion")
_SHORT = 100_000
"""Bytes; what is below that is decoded in a fraction of a millisecond."""
_FINAL_DEATHS = {
    Death.CPU_TIME: "Reading this document takes more time than is allowed.",
    Death.SIGNAL: "This document breaks its reader, which was ended safely.",
}
"""Deaths that are the file's fault. Any other came from outside, so another attempt may do."""


class ExtractionStopped(HoldfastError):
    """A reader was stopped from outside or was not free; the next attempt may succeed."""

    code = ErrorCode.UNKNOWN


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """What reading one document may cost. Times are seconds.

    Args:
        readers: child processes; documents beyond that wait for one.
        memory_bytes: address space of a child.
        cpu_seconds: computing time for one document.
        wall_seconds: elapsed time for one document, and most time to wait for a child.
        most_characters: longest text of a PDF, DOCX or HTML document, which may be far longer than
            its file. A plain text is as long as its file and needs no limit of its own.
    """

    readers: int = 2
    memory_bytes: int = 1536 * MEGABYTE
    cpu_seconds: float = 30.0
    wall_seconds: float = 60.0
    most_characters: int = 5_000_000


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of a document, never empty, and the title that it has itself."""

    title: str | None
    text: str


class Extractor:
    """Extract text; an async context manager. Children start when they are first needed."""

    def __init__(self, limits: ExtractionLimits, clock: Clock) -> None:
        self._limits = limits
        self._function = ConfinedFunction(
            "holdfast_ingestion.extraction.child:load",
            clock,
            options={"most_characters": limits.most_characters},
            limits=_child_limits(limits),
            call_seconds=limits.wall_seconds,
            children=limits.readers,
        )

    async def __aenter__(self) -> "Extractor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._function.aclose()

    async def extract(self, data: bytes, chosen: Format, charset: str | None) -> ExtractedText:
        """Return the text of `data`.

        Args:
            charset: what the server says that it is, as Python names it.

        Raises:
            Permanent: it cannot be read, or there is no text in it.
            ExtractionStopped: its reader was stopped; try again.
        """
        if chosen.is_plain:
            found = await asyncio.to_thread(_plain, data, chosen, charset)
        else:
            found = await self._read(data, chosen, charset)
            if len(found.text) > (most := self._limits.most_characters):
                raise Permanent(ErrorCode.TOO_LARGE, too_long_line(most))
        if not found.text:
            raise Permanent(NOTHING_TO_READ, "There is no text in this document.")
        return found

    async def _read(self, data: bytes, chosen: Format, charset: str | None) -> ExtractedText:
        if chosen is Format.HTML:
            # Decoded here: a confined process cannot load the codec of a character set.
            data = await _as_utf8(data, charset)
        try:
            return await self._function.call(str(chosen), _found, data)
        except TimeoutError:
            line = "Reading this document takes more time than is allowed."
            raise Permanent(ErrorCode.TIMEOUT, line) from None
        except ChildDied as died:
            line = _FINAL_DEATHS.get(died.death, "")
            if line:
                raise Permanent(ErrorCode.PARSE_ERROR, line) from died
            raise ExtractionStopped("The reader of this document was stopped.") from died
        except ChildFailed as error:
            raise ExtractionStopped("No reader could be started for this document.") from error


def _child_limits(limits: ExtractionLimits) -> ChildLimits:
    return ChildLimits(
        memory_bytes=limits.memory_bytes,
        cpu_seconds=limits.cpu_seconds,
        # JSON writes a character outside ASCII as six or twelve bytes.
        output_bytes=12 * limits.most_characters + MEGABYTE,
        # A start takes as long as a hundred small pages; memory has a limit of its own.
        requests=1000,
    )


def _plain(data: bytes, chosen: Format, charset: str | None) -> ExtractedText:
    text = tidy(decode(data, charset))
    return ExtractedText(markdown_title(text) if chosen is Format.MARKDOWN else None, text)


async def _as_utf8(data: bytes, charset: str | None) -> bytes:
    def recode() -> bytes:
        return decode(data, charset or html_charset(data)).encode("utf-8", "replace")

    # Only a long document is worth the way to a thread and back.
    return recode() if len(data) < _SHORT else await asyncio.to_thread(recode)


def _found(child: ChildProcess, fields: Any) -> ExtractedText:
    """Return what a child says that it found; nothing of that is trusted."""
    if fields["code"] is None:
        title = fields["title"]
        return ExtractedText(None if title is None else str(title), tidy(str(fields["text"])))
    code, message = error_code(fields["code"]), str(fields.get("message", ""))
    detail = str(fields.get("detail", ""))
    if code == ErrorCode.MEMORY_ERROR or detail:
        # It may be damaged itself.
        child.retire()
    if detail:
        _log.warning("a document broke its reader: %s", detail)
    fallback = ERRORS.get(code, ERRORS[ErrorCode.PARSE_ERROR]).message
    raise Permanent(code, message or fallback)
