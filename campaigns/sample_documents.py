"""Documents for the ingestion campaign, the sites that serve them, and what must become of them."""

import contextlib
import io
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import docx
from tests.apps.conversion.pdf_writer import document, paragraph

from holdfast.testing.downstream import Request, ScriptedDownstream, reply, reset, slow, status
from holdfast_ingestion.chunking import Chunk, split
from holdfast_ingestion.extraction.plain_text import tidy
from holdfast_ingestion.extraction.readers import read
from holdfast_ingestion.formats import Format

_SITES = 4
"""The last one fails at times."""
_KINDS = (
    *[(True, Format.HTML)] * 4,
    *[(True, Format.TEXT)] * 2,
    (True, Format.PDF),
    (True, Format.DOCX),
    *[(False, Format.TEXT)] * 2,
    (False, Format.MARKDOWN),
    (False, Format.HTML),
    (False, Format.PDF),
    (False, Format.DOCX),
)
"""How documents are given: whether by address, and the format."""
_WORDS = [
    "anchor", "barge", "beacon", "breeze", "bridge", "canvas", "channel", "chart", "coast", "crew",
    "current", "deck", "ferry", "fleet", "harbour", "horizon", "island", "jetty", "keel", "lantern",
    "mast", "mooring", "oar", "pilot", "pier", "reef", "river", "rope", "rudder", "sail", "shore",
    "signal", "storm", "tide", "vessel", "voyage", "watch", "wave", "wharf",
]  # fmt: skip
_LINES_PER_PAGE = 45


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """A document of the campaign.

    Args:
        number: from 0.
        format: its format.
        data: what is served or sent.
        url: where it is served; None for one that is sent.
        sentence: one that no other document has.
        chunks: what must be stored of it, computed here and not by the service.
    """

    number: int
    format: Format
    data: bytes
    url: str | None
    sentence: str
    chunks: tuple[Chunk, ...]

    @property
    def is_file(self) -> bool:
        """Whether the service keeps what was sent as a file until it is extracted."""
        return self.url is None and not self.format.is_plain

    def request(self) -> dict[str, Any]:
        """Return the arguments of the POST that adds it."""
        if self.url is not None:
            return {"json": {"url": self.url, "type": "url"}}
        if self.format in {Format.PDF, Format.DOCX}:
            name = f"{self.number}.{self.format}"
            return {"files": {"file": (name, self.data, self.format.media_type)}}
        return {"json": {"content": self.data.decode(), "type": str(self.format)}}


class Sites:
    """Sites on the loopback interface, each a host of its own; while `failing`, one fails.

    It fails once for each document: its attempts are used up by kills together with that at most.

    Args:
        failures: how many requests fail at most; five in a row open the breaker for a minute.
    """

    def __init__(self, failures: int) -> None:
        self._served: dict[str, SampleDocument] = {}
        self._failures = itertools.islice(itertools.cycle((status(503), reset())), failures)
        self._failed: set[str] = set()
        self.failing = False
        self._servers = [ScriptedDownstream(reply(self._choose)) for _ in range(_SITES - 1)]
        self._servers.append(ScriptedDownstream(reply(self._choose_or_fail)))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Serve while the block runs."""
        with contextlib.ExitStack() as stack:
            for server in self._servers:
                stack.enter_context(server)
            yield

    def address(self, number: int) -> str:
        """Return where the document with this number is served."""
        return f"{self._servers[number % _SITES].url}/{number}"

    def serve(self, documents: Sequence[SampleDocument]) -> None:
        """Serve these."""
        self._served = {f"/{each.number}": each for each in documents}

    @property
    def requests(self) -> int:
        """How many requests came."""
        return sum(len(server.requests) for server in self._servers)

    def _choose(self, request: Request) -> Any:
        found = self._served[request.path]
        answer = status(200, found.data, headers={"Content-Type": found.format.media_type})
        # Some take longer, so that a kill can meet them while they are fetched.
        return slow(0.03 * (found.number % 5), answer)

    def _choose_or_fail(self, request: Request) -> Any:
        fails = self.failing and request.path not in self._failed
        failure = next(self._failures, None) if fails else None
        if failure is None:
            return self._choose(request)
        self._failed.add(request.path)
        return failure


def sample_documents(count: int, rng: random.Random, sites: Sites) -> list[SampleDocument]:
    """Return documents of all formats, and have `sites` serve those that are fetched."""
    made = [_document(number, rng, sites) for number in range(count)]
    sites.serve(made)
    return made


def _document(number: int, rng: random.Random, sites: Sites) -> SampleDocument:
    is_fetched, chosen = rng.choice(_KINDS)
    sentence = f"The keeper of lamp lamp{number} saw {rng.choice(_WORDS)} number{number} pass."
    paragraphs = [_paragraph(rng) for _ in range(rng.randint(1, 10))]
    paragraphs.insert(rng.randint(0, len(paragraphs)), sentence)
    data = _written(f"Log {number}", paragraphs, chosen)
    text = tidy(data.decode()) if chosen.is_plain else read(data, chosen).text
    assert sentence in " ".join(text.split()), f"{chosen} lost its sentence"
    url = sites.address(number) if is_fetched else None
    return SampleDocument(number, chosen, data, url, sentence, tuple(split(text)))


def _paragraph(rng: random.Random) -> str:
    sentences = [
        " ".join(rng.choices(_WORDS, k=rng.randint(5, 14))).capitalize() + "."
        for _ in range(rng.randint(2, 8))
    ]
    return " ".join(sentences)


def _written(title: str, paragraphs: Sequence[str], chosen: Format) -> bytes:
    if chosen is Format.PDF:
        return _pdf(paragraphs)
    if chosen is Format.DOCX:
        return _docx(title, paragraphs)
    if chosen is Format.HTML:
        body = "".join(f"<p>{each}</p>\n" for each in paragraphs)
        head = f"<html><head><title>{title}</title></head><body><nav>Home</nav><article><h1>{title}"
        return f"<!doctype html>{head}</h1>{body}</article></body></html>".encode()
    heading = f"# {title}\n\n" if chosen is Format.MARKDOWN else ""
    return (heading + "\n\n".join(paragraphs)).encode()


def _pdf(paragraphs: Sequence[str]) -> bytes:
    lines = [line for each in paragraphs for line in (*_lines(each), "")]
    pages = [
        paragraph(72, 760, lines[begin : begin + _LINES_PER_PAGE])
        for begin in range(0, len(lines), _LINES_PER_PAGE)
    ]
    return document(*pages)


def _lines(text: str, width: int = 70) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _docx(title: str, paragraphs: Sequence[str]) -> bytes:
    made = docx.Document()
    made.core_properties.title = title
    for each in paragraphs:
        made.add_paragraph(each)
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()
