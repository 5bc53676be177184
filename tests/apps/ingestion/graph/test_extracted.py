"""What can come of a text, whatever an extractor says."""

from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from holdfast_ingestion.graph.extracted import (
    MOST_CONCEPTS,
    MOST_LABEL,
    MOST_RELATIONS,
    bounded,
)

names = st.one_of(st.text(), st.sampled_from(["a", "A", "b", "c d", "c-d"]))


def test_concepts_and_relations_are_taken_by_their_normalised_names():
    found = bounded(["Circuit breaker", "retry"], [("circuit-breaker", " limits ", "Retry")])
    breaker, retry = found.mentions
    assert (breaker.name, retry.name) == ("Circuit breaker", "retry")
    (relation,) = found.relations
    assert (relation.subject, relation.label, relation.object) == (
        breaker.concept,
        "limits",
        retry.concept,
    )


def test_a_concept_named_twice_is_one_with_its_first_spelling():
    found = bounded(["Retry", "retry"], [])
    assert [each.name for each in found.mentions] == ["Retry"]


def test_relations_with_unknown_ends_or_with_themselves_are_left_out():
    wrong = [("a", "is", "a"), ("a", "is", "elsewhere"), ("elsewhere", "is", "b"), ("a", "", "b")]
    assert bounded(["a", "b"], wrong).relations == ()


@given(st.lists(names, max_size=60), st.lists(st.tuples(names, names, names), max_size=60))
def test_all_is_within_bounds(given_names, relations):
    found = bounded(given_names, relations)
    ids = [each.concept for each in found.mentions]
    assert len(ids) == len(set(ids)) <= MOST_CONCEPTS
    assert all(len(each.name) <= 80 and each.normalised for each in found.mentions)
    assert len(found.relations) == len(set(found.relations)) <= MOST_RELATIONS
    for each in found.relations:
        assert {each.subject, each.object} <= set(ids)
        assert each.subject != each.object
        assert 0 < len(each.label) <= MOST_LABEL


def test_names_of_any_length_cost_no_more_than_reading_them():
    long = "a" + "." * 200_000 + "a"
    begin = process_time()
    assert bounded(["a", "b"], [(long, "is", "b")] * 2).relations == ()
    assert process_time() - begin < 10.0
