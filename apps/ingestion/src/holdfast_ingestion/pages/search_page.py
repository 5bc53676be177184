"""The search page: one field, passages with the words that were found, and where they are from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from holdfast import HoldfastError, Permanent
from holdfast.http import AppPages, Caller
from holdfast_ingestion.pages.document_rows import host_of, name_of, origin_of
from holdfast_ingestion.search import Mode, Search, SearchAnswer
from holdfast_ingestion.word_search import Hit, Scope

MOST_HITS = 20
"""Documents that a search shows."""
MOST_CHARACTERS = 480
"""Characters of a passage that are shown, about six lines."""
_BEFORE = 80
"""Characters that are shown before the first word that was found."""
_MOST_KEPT = 300
"""Characters of a refused query that stay in the field."""
_HOW = {
    Mode.WORDS: "by their words",
    Mode.SEMANTIC: "by their meaning",
    Mode.HYBRID: "by their words and their meaning",
}
_LABELS = {Mode.WORDS: "Words", Mode.SEMANTIC: "Meaning", Mode.HYBRID: "Both"}


@dataclass(frozen=True, slots=True)
class Passage:
    """One hit as the page shows it.

    `pieces` are the text in order, each with whether it was searched for. `place` says where in its
    document the passage stands.
    """

    document_id: str
    name: str
    source: str
    url: str | None
    place: str
    pieces: list[tuple[str, bool]]


def passage_of(hit: Hit) -> Passage:
    """Return `hit` for the page."""
    return Passage(
        document_id=hit.document_id,
        name=name_of(hit.title, hit.filename, hit.url, hit.type),
        source=origin_of(hit.url, hit.filename, hit.type),
        url=hit.url if host_of(hit.url) else None,
        place=f"Passage {hit.position + 1}, characters {hit.start + 1:,} to {hit.end:,}",
        pieces=list(pieces_of(*shortened(hit.passage, hit.highlights))),
    )


def shortened(
    text: str, places: tuple[tuple[int, int], ...], most: int = MOST_CHARACTERS
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the part of `text` that has most of `places`, and these in it.

    It has about `most` characters and begins and ends with a word; … stands for what is left out.
    """
    if len(text) <= most:
        return text, places
    begins = [max(0, start - _BEFORE) for start, _ in places] or [0]
    begin = max(
        begins, key=lambda at: sum(at <= start < at + most - _BEFORE for start, _ in places)
    )
    begin = 0 if begin == 0 else text.find(" ", begin) + 1
    end = len(text) if begin + most >= len(text) else text.rfind(" ", begin, begin + most)
    end = end if end > begin else begin + most
    head, tail = "… " if begin else "", " …" if end < len(text) else ""
    shift = len(head) - begin
    kept = tuple(
        (start + shift, stop + shift) for start, stop in places if begin <= start < stop <= end
    )
    return f"{head}{text[begin:end].strip()}{tail}", kept


def pieces_of(text: str, places: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, bool]]:
    """Yield `text` in pieces, each with whether it is one of `places`; these are in order."""
    at = 0
    for start, end in places:
        if start > at:
            yield text[at:start], False
        yield text[start:end], True
        at = end
    if at < len(text):
        yield text[at:], False


def summary_of(answer: SearchAnswer) -> str:
    """Say how many documents were found, and how."""
    count = len(answer.hits)
    if not count:
        return f"No document was found {_HOW[answer.mode]}."
    if count == MOST_HITS:
        found = f"The best {count} documents"
    else:
        found = "1 document" if count == 1 else f"{count} documents"
    return f"{found}, found {_HOW[answer.mode]}."


def search_page(pages: AppPages, search: Callable[[], Search]) -> APIRouter:
    """Return the route of the page; `search` returns what finds passages."""

    async def show(
        request: Request, caller: Caller, q: str | None = None, mode: str = ""
    ) -> Response:
        finder, answer, problem, status = search(), None, "", 200
        chosen = Mode(mode) if mode in list(Mode) else None
        if q is not None:
            try:
                answer = await finder.find(Scope(caller.organisation), q, MOST_HITS, chosen)
            except Permanent as refusal:
                problem, status = str(refusal), _status(request, refusal)
        return pages.answer(
            request,
            "search.html",
            status,
            query=(q or "")[: _MOST_KEPT if problem else None],
            modes=[(each, _LABELS[each]) for each in finder.modes],
            chosen=chosen if chosen in finder.modes else finder.modes[0],
            problem=problem,
            summary="" if answer is None else summary_of(answer),
            is_degraded=answer is not None and answer.degraded,
            passages=[] if answer is None else [passage_of(hit) for hit in answer.hits],
            is_asked=answer is not None,
        )

    router = APIRouter()
    router.add_api_route("/search", show, methods=["GET", "HEAD"])
    return router


def _status(request: Request, refusal: HoldfastError) -> int:
    known = request.app.state.errors.get(refusal.code)
    return 400 if known is None else known.http_status
