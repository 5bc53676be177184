"""Vectors of one size and length, and the nearest among many."""

import math
import random

import pytest

from holdfast_ingestion.embeddings.vectors import (
    DIMENSIONS,
    as_vector,
    most_similar,
    similarities,
    to_bytes,
)


def test_a_vector_has_the_length_1_and_its_size():
    for count in (1, 5, DIMENSIONS, 3072):
        vector = as_vector([3.0] * count)
        assert len(vector) == DIMENSIONS
        assert math.hypot(*vector) == pytest.approx(1)


def test_the_first_numbers_of_a_long_embedding_count():
    long = [1.0, 2.0, *[0.0] * (DIMENSIONS - 2), *[9.0] * 100]
    assert as_vector(long) == pytest.approx(as_vector([1.0, 2.0]))


@pytest.mark.parametrize("wrong", [[], [0.0, 0.0], [math.nan], [math.inf, 1.0]])
def test_an_embedding_without_a_direction_is_refused(wrong):
    with pytest.raises(ValueError, match="finite numbers"):
        as_vector(wrong)


def test_the_most_similar_are_those_of_the_largest_cosine():
    rng = random.Random(1)
    vectors = {
        chunk: as_vector([rng.gauss(0, 1) for _ in range(DIMENSIONS)]) for chunk in range(200)
    }
    asked = as_vector([rng.gauss(0, 1) for _ in range(DIMENSIONS)])
    rows = [(f"document-{chunk}", chunk, to_bytes(vector)) for chunk, vector in vectors.items()]

    found = most_similar([similarities(asked, rows)], 5)

    cosines = {
        chunk: sum(a * b for a, b in zip(asked, vector, strict=True))
        for chunk, vector in vectors.items()
    }
    assert [chunk for _, chunk, _ in found] == sorted(cosines, key=lambda chunk: -cosines[chunk])[
        :5
    ]
    assert found[0][0] == pytest.approx(max(cosines.values()), abs=1e-6)


def test_among_none_none_is_similar():
    assert most_similar([similarities(as_vector([1.0]), [])], 5) == []


def test_the_nearest_chunk_of_each_document_is_taken_and_equal_ones_by_their_ids():
    parts = (
        [(0.9, 7, "a"), (0.1, 3, "b"), (0.8, 8, "a")],
        [(0.9, 2, "c"), (0.5, 1, "b"), (0.9, 9, "c")],
    )
    assert most_similar(parts, 3) == [(0.9, 2, "c"), (0.9, 7, "a"), (0.5, 1, "b")]
    assert most_similar(parts, 1) == [(0.9, 2, "c")]
