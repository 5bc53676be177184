"""Reciprocal rank fusion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_ingestion.ranking import reciprocal_rank_fusion

rankings = st.lists(st.lists(st.integers(0, 20), unique=True), max_size=4)


def test_what_both_rankings_have_goes_before_what_one_has_at_the_same_ranks():
    fused = reciprocal_rank_fusion([["a", "b"], ["c", "b"]])
    assert [each for each, _ in fused] == ["b", "a", "c"]


def test_a_score_is_the_sum_of_reciprocal_ranks():
    fused = dict(reciprocal_rank_fusion([["a", "b"], ["b"]], damping=10))
    assert fused == {"a": pytest.approx(1 / 11), "b": pytest.approx(1 / 12 + 1 / 11)}


def test_nothing_ranked_is_nothing():
    assert reciprocal_rank_fusion([]) == []
    assert reciprocal_rank_fusion([[], []]) == []


def test_a_ranking_that_has_something_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        reciprocal_rank_fusion([["a", "a"]])


@given(rankings)
def test_everything_is_ranked_once_and_in_the_order_of_its_score(given_rankings):
    fused = reciprocal_rank_fusion(given_rankings)
    assert {each for each, _ in fused} == {each for ranking in given_rankings for each in ranking}
    assert len(fused) == len({each for each, _ in fused})
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)


@given(st.lists(st.integers(), unique=True))
def test_one_ranking_keeps_its_order(ranking):
    assert [each for each, _ in reciprocal_rank_fusion([ranking])] == ranking
