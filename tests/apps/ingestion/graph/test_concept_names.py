"""Names of concepts: shown, compared and addressed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_ingestion.graph.concept_names import cleaned, concept_id, normalised


@pytest.mark.parametrize(
    "spelling",
    [
        "circuit breaker",
        "Circuit  Breaker",
        "circuit-breaker",
        "CIRCUIT_BREAKER",
        "“Circuit breaker”.",
    ],
)
def test_spellings_of_one_name_are_one_concept(spelling):
    assert normalised(spelling) == "circuit breaker"


def test_different_names_are_different_concepts():
    names = ["C", "C++ templates", "café", "cafe", "Æther", "ether"]
    assert len({concept_id(normalised(name)) for name in names}) == len(names)


def test_wide_letters_are_letters():
    assert normalised("\N{FULLWIDTH LATIN CAPITAL LETTER H}oldfast") == "holdfast"


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("  two \n lines ", "two lines"),
        ("zero\u200bwidth", "zerowidth"),
        ("right\u202eto left", "rightto left"),
        ("nul\x00byte", "nul byte"),
        ("", None),
        ("\u200b", None),
        ("x" * 81, None),
    ],
)
def test_a_name_is_shown_in_one_line_without_invisible_characters(given_text, shown):
    assert cleaned(given_text) == shown


@given(st.text())
def test_normalising_twice_changes_nothing_more_and_ids_are_always_the_same(text):
    once = normalised(text)
    assert normalised(once) == once
    assert concept_id(once) == concept_id(once)
    assert len(concept_id(once)) == 24


@given(st.text())
def test_a_cleaned_name_is_short_and_printable(text):
    shown = cleaned(text)
    assert shown is None or (0 < len(shown) <= 80 and shown.isprintable())
