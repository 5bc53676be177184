"""Key phrases by the local library, in a real child process."""

import asyncio

import pytest

from holdfast import SystemClock
from holdfast_ingestion.graph import key_phrases
from holdfast_ingestion.graph.key_phrases import KeyPhraseExtractor, KeyPhrasesStopped, distinct

TEXT = """A circuit breaker stops calls to a failing service. While the circuit breaker is open, the
retry policy waits. Exponential backoff spreads the calls of a retry policy over time."""


def test_key_phrases_of_one_sentence_are_related_and_empty_texts_have_none():
    async def scenario():
        extractor = KeyPhraseExtractor(SystemClock())
        try:
            return [await extractor.extract(text) for text in (TEXT, " ", "\x00\ud800?")]
        finally:
            await extractor.aclose()

    found, *empty = asyncio.run(scenario())
    names = {each.normalised: each.concept for each in found.mentions}
    assert {"circuit breaker", "failing service", "retry policy"} <= set(names)
    ends = {frozenset((each.subject, each.object)) for each in found.relations}
    assert frozenset((names["circuit breaker"], names["failing service"])) in ends
    assert frozenset((names["failing service"], names["retry policy"])) not in ends
    assert {each.label for each in found.relations} == {"appears with"}
    assert all(each.mentions == () for each in empty)


def test_a_phrase_whose_words_are_in_better_ones_is_left_out():
    phrases = ["circuit breaker", "Breaker stops", "circuit", "stops breaker", "retry"]
    assert distinct(phrases) == ["circuit breaker", "Breaker stops", "retry"]


def test_a_child_that_cannot_start_is_tried_again(monkeypatch):
    monkeypatch.setattr(key_phrases, "_TARGET", "holdfast_ingestion.nothing:load")

    async def scenario():
        extractor = KeyPhraseExtractor(SystemClock())
        try:
            await extractor.extract(TEXT)
        finally:
            await extractor.aclose()

    with pytest.raises(KeyPhrasesStopped):
        asyncio.run(scenario())
