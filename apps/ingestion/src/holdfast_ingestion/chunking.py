"""Cut a text into overlapping pieces that end with a sentence where they can."""

from dataclasses import dataclass

from semantic_text_splitter import TextSplitter

CHUNK_CHARACTERS = 1200
"""Most characters of a chunk: a few paragraphs, well below what embedding models take."""
OVERLAP_CHARACTERS = 200
"""Most characters that a chunk repeats of the one before it: one or two sentences."""
_WINDOWS = 16
"""The splitter gets a text in windows of so many chunks: on a text without sentences its time grows
with the square of the length."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text; the offsets count characters, and `text` is `whole[start:end]`."""

    start: int
    end: int
    text: str


def split(
    text: str, *, most: int = CHUNK_CHARACTERS, overlap: int = OVERLAP_CHARACTERS
) -> list[Chunk]:
    """Return the pieces of `text` in order; together they hold all of it but blanks.

    `text` is tidied (`plain_text.tidy`): on long runs of blanks the splitter is slow.

    A piece ends at the largest border that fits: paragraphs, then lines, sentences, words,
    characters.

    Args:
        most: most characters of a piece.
        overlap: most characters that a piece repeats of the one before it.
    """
    splitter, window = TextSplitter(most, overlap=overlap), most * _WINDOWS
    chunks: list[Chunk] = []
    begin = 0
    while begin < len(text):
        end = begin + window
        found = [
            Chunk(begin + start, begin + start + len(piece), piece)
            for start, piece in splitter.chunk_indices(text[begin:end])
        ]
        if end < len(text) and len(found) > 1:
            # The last one may be cut by the window. The next window begins with it.
            end = found.pop().start
        chunks += found
        begin = end
    return chunks
