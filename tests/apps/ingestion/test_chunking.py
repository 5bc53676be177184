"""Chunks overlap, end with sentences, and together hold the whole text."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast_ingestion.chunking import CHUNK_CHARACTERS, OVERLAP_CHARACTERS, split

SENTENCES = "".join(f"This is sentence number {number} of many. " for number in range(2000))


def test_chunks_end_with_a_sentence_and_repeat_the_end_of_the_one_before():
    chunks = split(SENTENCES)

    assert len(chunks) > 50
    assert all(chunk.text.endswith(".") for chunk in chunks)
    assert all(chunk.text.startswith("This") for chunk in chunks)
    for before, after in pairwise(chunks):
        assert 0 < before.end - after.start <= OVERLAP_CHARACTERS


@given(st.text(alphabet="ab. \n\u00e9\U0001f98a", max_size=400), st.integers(5, 60))
def test_chunks_are_pieces_of_the_text_and_leave_out_nothing_but_blanks(text, most):
    chunks = split(text, most=most, overlap=most // 4)

    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert all(len(chunk.text) <= most for chunk in chunks)
    kept = {place for chunk in chunks for place in range(chunk.start, chunk.end)}
    assert all(letter.isspace() for place, letter in enumerate(text) if place not in kept)


def test_a_long_text_without_sentences_is_split_in_linear_time():
    # The splitter alone would take minutes for each of these.
    for text in ("word " * 200_000, "x" * 1_000_000):
        chunks = split(text)
        assert all(len(chunk.text) <= CHUNK_CHARACTERS for chunk in chunks)
        assert chunks[-1].end >= len(text) - 1


def test_blanks_have_no_chunks():
    assert split("") == split("\n" * 30_000) == []
