from __future__ import annotations

import random

import pytest

from holdfast.testing import seeded_rng
from holdfast.testing.randomness import FixedRandom


def test_the_same_seed_gives_the_same_numbers():
    assert [seeded_rng(7).random() for _ in range(3)] == [random.Random(7).random()] * 3
    assert seeded_rng(7).random() != seeded_rng(8).random()


def test_a_seeded_generator_is_independent_of_the_shared_one():
    first = seeded_rng(1)
    first.random()
    random.seed(99)
    second = seeded_rng(1)
    second.random()
    assert first.random() == second.random()


def test_given_numbers_are_drawn_in_turn_and_the_last_repeats():
    rng = FixedRandom(0.25, 0.5, 1.0)
    assert [rng.random() for _ in range(5)] == [0.25, 0.5, 1.0, 1.0, 1.0]


def test_the_bounds_of_a_range_can_be_drawn():
    assert FixedRandom(0.0).uniform(-0.2, 0.2) == -0.2
    assert FixedRandom(1.0).uniform(-0.2, 0.2) == pytest.approx(0.2)


def test_choices_follow_the_given_numbers():
    assert FixedRandom(0.0).choice("abc") == "a"
    assert FixedRandom(0.5).choice("abc") == "b"
    assert FixedRandom(1.0).choice("abc") == "c"
    assert FixedRandom(1.0).randrange(10, 20) == 19


@pytest.mark.parametrize("values", [(), (-0.1,), (0.5, 1.1), (float("nan"),)])
def test_numbers_outside_0_to_1_are_refused(values):
    with pytest.raises(ValueError, match="value"):
        FixedRandom(*values)
