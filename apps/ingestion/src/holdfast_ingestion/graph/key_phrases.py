"""Concepts without a language model: the key phrases of a text, by YAKE.

YAKE ranks the phrases of one text by its own statistics. That takes some 20 ms of computing for
each chunk, so it runs in a child process. Two phrases in one sentence are taken to be related.
"""

import json
import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from holdfast import Clock, ErrorCode, HoldfastError
from holdfast.children import (
    MEGABYTE,
    ChildDied,
    ChildFailed,
    ChildLimits,
    ChildProcess,
    ConfinedFunction,
    RequestServer,
    request_server,
)
from holdfast_ingestion.graph.extracted import PassageConcepts, bounded

SOURCE = "key-phrases"
_LABEL = "appears with"
_MOST_PHRASES = 8
"""Phrases of one chunk; those after them are mostly noise."""
_CANDIDATES = 20
"""Phrases that YAKE ranks, many of them with the words of another one."""
_MOST_WORDS = 2
"""Words of a phrase; with more, most are pieces of sentences."""
_SECONDS = 30.0
"""For the phrases of one text."""
_SENTENCE_END = re.compile(r"[.!?]\s+|\n\s*\n")
_TARGET = "holdfast_ingestion.graph.key_phrases:load"
_LIMITS = ChildLimits(memory_bytes=1024 * MEGABYTE, cpu_seconds=_SECONDS, output_bytes=MEGABYTE)


class KeyPhrasesStopped(HoldfastError):
    """The child process was stopped or could not start; the next attempt may succeed."""

    code = ErrorCode.UNKNOWN


class KeyPhraseExtractor:
    """Extract key phrases in a child process, which starts when it is first needed."""

    def __init__(self, clock: Clock) -> None:
        self._function = ConfinedFunction(
            _TARGET, clock, limits=_LIMITS, call_seconds=_SECONDS, idle_seconds=60.0
        )

    async def extract(self, text: str) -> PassageConcepts:
        """Return the key phrases of `text`.

        Raises:
            KeyPhrasesStopped: try again.
        """
        try:
            phrases = await self._function.call(text, _phrases)
        except (TimeoutError, ChildDied, ChildFailed) as error:
            raise KeyPhrasesStopped("The key phrases of a passage were not found.") from error
        chosen = distinct(phrases)[:_MOST_PHRASES]
        return bounded(chosen, _together(chosen, text))

    async def aclose(self) -> None:
        """End the child process."""
        await self._function.aclose()


def distinct(phrases: Sequence[str]) -> list[str]:
    """Return those of `phrases`, best first, with a word that none before them has."""
    chosen: list[str] = []
    seen: set[str] = set()
    for phrase in phrases:
        words = set(phrase.casefold().split())
        if not words <= seen:
            chosen.append(phrase)
            seen |= words
    return chosen


def _together(phrases: Sequence[str], text: str) -> list[tuple[str, str, str]]:
    """Return the pairs of phrases that one sentence has, as relations."""
    pairs: dict[tuple[str, str], None] = {}
    for sentence in _SENTENCE_END.split(text.casefold()):
        inside = [phrase for phrase in phrases if phrase.casefold() in sentence]
        pairs.update(dict.fromkeys(combinations(inside, 2)))
    return [(first, _LABEL, second) for first, second in pairs]


def _phrases(_child: ChildProcess, phrases: Any) -> list[str]:
    """Return what a child has found."""
    return [str(phrase) for phrase in phrases]


# -- the child's side ----------------------------------------------------------------------------


def load(_options: dict[str, Any]) -> RequestServer:
    """Load what is needed, and return what answers the worker's requests."""
    import yake  # type: ignore[import-untyped]  # it has none

    extractor = yake.KeywordExtractor(lan="en", n=_MOST_WORDS, top=_CANDIDATES)

    def answer(text: str, _files: list[int]) -> str:
        return json.dumps([phrase for phrase, _ in extractor.extract_keywords(text)])

    # Reads its own files when it is first used, which a confined process cannot.
    answer("Some words are read before the first text, so that all is loaded by then.", [])
    return request_server(answer)
