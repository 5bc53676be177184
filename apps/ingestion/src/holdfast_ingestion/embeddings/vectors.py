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
Similar = tuple[float, int]
"""How similar a chunk is, from -1 to 1, and its id."""


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


def most_similar(asked: Vector, rows: Sequence[tuple[int, bytes]], limit: int) -> list[Similar]:
    """Return the chunks of `rows`, ids and stored vectors, that are nearest to `asked`."""
    import numpy

    stored = numpy.frombuffer(b"".join(vector for _, vector in rows), _STORED)
    similarities = stored.reshape(len(rows), DIMENSIONS) @ numpy.asarray(asked, _STORED)
    best = numpy.argsort(-similarities, kind="stable")[:limit]
    return [(float(similarities[each]), rows[each][0]) for each in best]


def merged(parts: Iterable[Sequence[Similar]], limit: int) -> list[Similar]:
    """Return the nearest chunks of several parts, the nearest first."""
    every = (each for part in parts for each in part)
    return heapq.nsmallest(limit, every, key=lambda each: (-each[0], each[1]))
