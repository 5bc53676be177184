"""Search by words, by meaning, or by both.

Words find names, numbers and quotations; meaning finds what is said in other words. `hybrid` ranks
by both, and a passage that both find goes first. While the query's own embedding cannot be had, a
search goes by words alone and says so.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast import Database, HoldfastError, Permanent, presets
from holdfast_ingestion.embeddings.embedder import MODEL, Embedder
from holdfast_ingestion.embeddings.repository import Embeddings
from holdfast_ingestion.embeddings.vectors import Vector
from holdfast_ingestion.error_codes import SEMANTIC_SEARCH_OFF
from holdfast_ingestion.ranking import reciprocal_rank_fusion
from holdfast_ingestion.word_search import Hit, Scope, search_words, words_of

_log = logging.getLogger("holdfast.ingestion")
_DEPTH = 30
"""Documents of each ranking that a hybrid search joins at least."""
_QUERY_SECONDS = 2.0
"""How long a search waits for the embedding of its query."""

CALLS_IN_SEARCHES = replace(
    presets.GEMINI_API,
    max_attempts=1,
    attempt_timeout=_QUERY_SECONDS,
    deadline=_QUERY_SECONDS,
    rate=None,
)
"""How searches call the API: once, and for a while not at all where it has failed several times."""


class Mode(StrEnum):
    """What a search goes by."""

    WORDS = "words"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The hits of a search.

    `mode` is what it went by, and `degraded` says that this is less than was asked for.
    """

    mode: Mode
    degraded: bool
    hits: list[Hit]


class Search:
    """Find passages.

    Args:
        database: where they are.
        embedder: makes the vectors of queries; None where only words are indexed.
    """

    def __init__(self, database: Database, embedder: Embedder | None = None) -> None:
        self._database = database
        self._embedder = embedder

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that can be asked for, the default one first."""
        if self._embedder is None:
            return (Mode.WORDS,)
        return (Mode.HYBRID, Mode.WORDS, Mode.SEMANTIC)

    async def find(
        self, scope: Scope, query: str, limit: int, mode: Mode | None = None
    ) -> SearchAnswer:
        """Return the best passages for `query`, at most one of each document.

        Raises:
            Permanent: `EMPTY_SEARCH`, `SEARCH_TOO_LONG`, or `SEMANTIC_SEARCH_OFF` where `mode`
                needs embeddings and they are not set up.
        """
        words_of(query)  # refuses what cannot be searched for
        chosen = mode or self.modes[0]
        if chosen not in self.modes:
            line = "Search by meaning is not set up here; search by words instead."
            raise Permanent(SEMANTIC_SEARCH_OFF, line)
        if chosen is Mode.WORDS:
            hits = await search_words(self._database, scope, query, limit)
            return SearchAnswer(Mode.WORDS, False, hits)
        depth = limit if chosen is Mode.SEMANTIC else max(limit, _DEPTH)
        by_words, vector = await asyncio.gather(
            search_words(self._database, scope, query, depth), self._vector(query)
        )
        if vector is None:
            return SearchAnswer(Mode.WORDS, True, by_words[:limit])
        by_meaning = await Embeddings(self._database, MODEL).search(scope, vector, depth)
        if chosen is Mode.SEMANTIC:
            return SearchAnswer(chosen, False, by_meaning)
        return SearchAnswer(chosen, False, fused(by_words, by_meaning)[:limit])

    async def _vector(self, query: str) -> Vector | None:
        assert self._embedder is not None
        try:
            return (await self._embedder.vectors([query]))[0]
        except Exception as error:
            # Whatever is wrong with the API, its client or the rate: words are still there.
            kind = error.code if isinstance(error, HoldfastError) else type(error).__name__
            _log.warning("a search goes by words alone, its query has no embedding: %s", kind)
            return None


def fused(by_words: list[Hit], by_meaning: list[Hit]) -> list[Hit]:
    """Return the hits of both rankings as one, with the passage of the ranking that has it higher.

    Of two that have a document at the same rank the passage found by words is shown: it has its
    words highlighted.
    """
    passages: dict[str, Hit] = {}
    for ranked in sorted(
        (*enumerate(by_words), *enumerate(by_meaning)), key=lambda ranked: ranked[0]
    ):
        passages.setdefault(ranked[1].document_id, ranked[1])
    rankings = [[hit.document_id for hit in hits] for hits in (by_words, by_meaning)]
    return [
        replace(passages[document], score=score)
        for document, score in reciprocal_rank_fusion(rankings)
    ]
