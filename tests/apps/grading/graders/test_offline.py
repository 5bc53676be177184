"""Grading by counting: more is better up to a point, and the feedback says what it is."""

import pytest

from holdfast_grading.graders.offline import grade_offline
from holdfast_grading.messages import Skill

SENTENCE = "However, many people walk to work because the streets are cool and green in summer. "
LONG = " ".join(
    f"However, person number {number} walks because street {chr(97 + number % 26)}{number} is "
    f"green, and neighbour {number} follows while the sun shines."
    for number in range(20)
)


def scores(result):
    return {each.criterion: each.score for each in result.criteria}


def test_the_result_says_that_it_is_offline():
    result = grade_offline(Skill.WRITING, SENTENCE)
    assert result.grader == "offline"
    assert result.feedback.startswith("Graded offline")
    assert set(scores(result)) == {"task", "coherence", "vocabulary", "grammar"}


def test_a_longer_text_fulfils_more_of_the_task():
    short, long = (grade_offline(Skill.WRITING, text) for text in (SENTENCE, LONG))
    assert scores(long)["task"] == 10.0
    assert scores(short)["task"] < 1.0
    assert long.score > short.score


def test_repeated_words_lower_the_score_for_vocabulary():
    repeated = grade_offline(Skill.WRITING, "Trees trees trees trees. " * 20)
    assert scores(repeated)["vocabulary"] < 1.0


@pytest.mark.parametrize("text", ["", "!!! ...", "123 456", "a" * 5000])
def test_a_strange_text_has_a_score_within_bounds(text):
    result = grade_offline(Skill.WRITING, text)
    assert all(0 <= score <= 10 for score in scores(result).values())


@pytest.mark.parametrize("seconds, fluency", [(60.0, 10.0), (600.0, 1.2), (10.0, 2.2), (None, 0.0)])
def test_speech_is_scored_by_its_pace(seconds, fluency):
    transcript = "word " * 130
    assert scores(grade_offline(Skill.SPEAKING, transcript, seconds))["fluency"] == fluency
