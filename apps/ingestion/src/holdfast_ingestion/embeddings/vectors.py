"""Vectors of one size and of length 1, and the nearest among many.

The models of Gemini are trained so that the first numbers of an embedding are one by themselves:
768 of the 3072 find nearly as well, in a quarter of the space. Shorter embeddings, of other models,
are filled up with zeros, which changes no angle. Between vectors of length 1 the cosine is the dot
product.
"""

import heapq
import math
from collections.abc import Iterable, Sequence

DIMENSIONS = 768
"""Numbers of a stored embedding."""
_STORED = "<f4"
"""numpy's name for little-endian numbers of 32 bits. It is imported where it is used, since every
start would be slower."""

Vector = list[float]
"""`DIMENSIONS` numbers, of length 1."""
Similar = tuple[float, int, str]
"""How similar a chunk is, from -1 to 1, its id, and its document."""


def as_vector(embedding: Sequence[float]) -> Vector:
    """Return an embedding as it is stored and compared.

    Raises:
        ValueError: it has no direction: it is empty, all zeros, or not finite.
    """
    taken = [float(value) for value in embedding[:DIMENSIONS]]
    length = math.hypot(*taken)
    if not math.isfinite(length) or length == 0.0:
        raise ValueError("an embedding must have finite numbers that are not all zero")
    return [value / length for value in taken] + [0.0] * (DIMENSIONS - len(taken))


def to_bytes(vector: Vector) -> bytes:
    """Return a vector as SQLite stores it."""
    import numpy

    return numpy.asarray(vector, _STORED).tobytes()


def similarities(asked: Vector, rows: Sequence[tuple[str, int, bytes]]) -> list[Similar]:
    """Return how similar the chunks of `rows` are: documents, ids and stored vectors."""
    import numpy

    stored = numpy.frombuffer(b"".join(vector for _, _, vector in rows), _STORED)
    found = stored.reshape(len(rows), DIMENSIONS) @ numpy.asarray(asked, _STORED)
    return [
        (similarity, chunk, document)
        for similarity, (document, chunk, _) in zip(found.tolist(), rows, strict=True)
    ]


def most_similar(parts: Iterable[Sequence[Similar]], limit: int) -> list[Similar]:
    """Return the nearest chunk of each document, the nearest first, at most `limit`."""
    best: dict[str, Similar] = {}
    for each in (each for part in parts for each in part):
        before = best.get(each[2])
        if before is None or _order(each) < _order(before):
            best[each[2]] = each
    return heapq.nsmallest(limit, best.values(), key=_order)


def _order(each: Similar) -> tuple[float, int]:
    return -each[0], each[1]
