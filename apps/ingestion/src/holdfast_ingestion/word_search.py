"""Full text search: passages that have the words of a query, the best ones first.

The rules are the same on both databases, but for a few signs that README.md names. All that is not
a letter, a number or a mark that combines with these separates words, in queries as in documents,
so no query can mean anything but its words. English endings do not count, accents do, however they
are encoded. A passage with the whole query as a phrase goes before one with some of its words. The
words of a title count as those of the first passage, for half as much.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from holdfast import Database, Permanent
from holdfast_ingestion.error_codes import EMPTY_SEARCH, SEARCH_TOO_LONG
from holdfast_ingestion.extraction.plain_text import normalised
from holdfast_ingestion.queries import load_queries
from holdfast_ingestion.ranking import DAMPING

MOST_CHARACTERS = 1000
"""Longest query."""
_MOST_WORDS = 64
"""Words of a query that count; those after them hardly change the order."""
_COMMON = frozenset(
    (
        *("a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but"),
        *("by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he"),
        *("her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "me", "more", "most"),
        *("my", "no", "not", "of", "on", "or", "our", "out", "she", "so", "some", "such", "than"),
        *("that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to"),
        *("up", "was", "we", "were", "what", "when", "where", "which", "who", "will", "with"),
        *("would", "you", "your"),
    )
)
"""English words that say nothing of what a passage is about; alone they are searched for."""
_MARKS = re.compile("([\x02\x03])")


@dataclass(frozen=True, slots=True)
class Hit:
    """The best passage of one document.

    Args:
        document_id: the document.
        title: what it is called.
        url: where it was fetched from.
        filename: what the uploaded file was called.
        type: its type.
        chunk_id: the passage.
        position: the number of the passage in its document, from 0.
        start: where the passage begins in the document's text, in characters.
        end: where it ends.
        passage: its text.
        highlights: the places of the words that were found, `(start, end)` in the passage.
        score: larger is better; comparable within one answer only.
    """

    document_id: str
    title: str | None
    url: str | None
    filename: str | None
    type: str
    chunk_id: int
    position: int
    start: int
    end: int
    passage: str
    highlights: tuple[tuple[int, int], ...]
    score: float


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search: an organisation, and the part of it that `org_id` names, if any."""

    organisation: str
    org_id: str | None = None


def words_of(query: str) -> list[str]:
    """Return the words of a query that a person typed.

    Raises:
        Permanent: `EMPTY_SEARCH` where there are none, `SEARCH_TOO_LONG`.
    """
    if len(query) > MOST_CHARACTERS:
        line = f"A search can have {MOST_CHARACTERS} characters; this one has {len(query)}."
        raise Permanent(SEARCH_TOO_LONG, line)
    spaced = "".join(char if _is_in_word(char) else " " for char in normalised(query))
    # Marks alone are no word, such as what makes a heart red.
    words = [word for word in spaced.split() if any(map(str.isalnum, word))][:_MOST_WORDS]
    if not words:
        raise Permanent(EMPTY_SEARCH, "Type a word to search for.")
    return words


def _is_in_word(char: str) -> bool:
    """Say whether a word can have `char`; in Hindi and Tamil marks are vowels."""
    return char.isalnum() or unicodedata.category(char).startswith("M")


async def search_words(database: Database, scope: Scope, query: str, limit: int) -> list[Hit]:
    """Return the best passages for the words of `query`, at most one of each document.

    Raises:
        Permanent: see `words_of`.
    """
    words = words_of(query)
    values = {
        **_parameters(words, database.dialect),
        "organisation": scope.organisation,
        "org_id": scope.org_id,
        "limit": limit,
    }
    rows = await database.fetch(load_queries(database.dialect)["search"], values)
    # Scores come from the rank alone: bm25 weighs a word by how rare it is in all organisations.
    return [_hit(row, 1 / (DAMPING + rank)) for rank, row in enumerate(rows, 1)]


def _parameters(words: list[str], dialect: str) -> dict[str, str]:
    """Return the words as the query of this database takes them."""
    # A passage that shares only such words with the query is no hit, and there are many of them.
    telling = [word for word in words if word.lower() not in _COMMON] or words
    if dialect != "sqlite":
        return {"query": " ".join(words), "telling": " ".join(telling)}
    # In quotes a word is nothing but a word.
    parts = [f'"{word}"' for word in telling]
    if len(words) > 1:
        parts.insert(0, f'"{" ".join(words)}"')
    return {"query": " OR ".join(parts)}


def _hit(row: tuple[Any, ...], score: float) -> Hit:
    *head, marked = row
    return Hit(*(*head, marked_places(marked), score))


def marked_places(marked: str) -> tuple[tuple[int, int], ...]:
    """Return what \\x02 and \\x03 enclose, as places in the text without these marks."""
    places, begin, length = [], 0, 0
    for piece in _MARKS.split(marked):
        if piece == "\x02":
            begin = length
        elif piece == "\x03":
            places.append((begin, length))
        else:
            length += len(piece)
    return tuple(places)
